"use client";
import { useState } from "react";

export default function Page() {
  const [tokens, setTokens] = useState(0);
  return (
    <main>
      <h1>Stack</h1>
      <foretoken-widget
        suppressHydrationWarning
        max-tokens="48"
        prompt={"func TestPush(t *testing.T) {\n"}
        onforetoken-done={(event) => setTokens(event.detail.token_ids.length)}
      />
      <p id="said">{tokens} tokens</p>
    </main>
  );
}
