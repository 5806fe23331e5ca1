import { useState } from "react";

export function Stack() {
  const [tokens, setTokens] = useState(0);
  return (
    <main>
      <foretoken-widget
        max-tokens="48"
        prompt={"func TestPush(t *testing.T) {\n"}
        onforetoken-done={(event) => setTokens(event.detail.token_ids.length)}
      />
      <p id="said">{tokens} tokens</p>
    </main>
  );
}
