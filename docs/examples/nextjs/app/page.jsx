"use client";
import { useState } from "react";

export default function Page() {
  const [tokens, setTokens] = useState(0);
  const listen = (widget) => {
    const done = (event) => setTokens(event.detail.token_ids.length);
    widget.addEventListener("foretoken-done", done);
    return () => widget.removeEventListener("foretoken-done", done);
  };
  return (
    <main>
      <h1>Stack</h1>
      <foretoken-widget
        suppressHydrationWarning
        max-tokens="48"
        prompt={"func TestPush(t *testing.T) {\n"}
        ref={listen}
      />
      <p id="said">{tokens} tokens</p>
    </main>
  );
}
