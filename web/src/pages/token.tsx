import { useState } from "react";
import { session } from "../api/http";
import { Button, Field } from "../ui/controls";
import { Logo } from "../ui/icons";

/** Asks for a token. It goes to this tab's memory, never into an address. */
export function TokenGate() {
  const [value, setValue] = useState("");
  const refused = session.token !== "";
  return (
    <form
      className="gate card"
      onSubmit={(e) => {
        e.preventDefault();
        if (value.trim()) session.set(value.trim());
      }}
    >
      <Logo />
      <h1>This server asks for a token</h1>
      <p className="muted">
        An operator makes one with <code>glovebox token create</code>. It stays in this tab, and is forgotten when the tab is closed.
      </p>
      <Field label="Token" type="password" name="token" autoComplete="current-password" autoFocus spellCheck={false} value={value} onChange={(e) => setValue(e.target.value)} error={refused ? "The server did not accept the token. It may be mistyped, or deleted." : undefined} maxLength={200} />
      <Button kind="primary" type="submit" disabled={!value.trim()}>
        Continue
      </Button>
    </form>
  );
}
