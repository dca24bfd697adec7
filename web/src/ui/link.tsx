// Links that came out of a sandbox or a model. They say where they go, and
// nothing is opened before that was shown.
import { useSyncExternalStore, type ReactNode } from "react";
import { safeLink } from "../model/markdown";
import { plain } from "../model/ansi";
import { Button } from "./controls";
import { Dialog } from "./dialog";
import { copyText } from "./toast";

let asked: URL | null = null;
const listeners = new Set<() => void>();

function ask(url: URL | null): void {
  asked = url;
  listeners.forEach((l) => l());
}

export function ExternalLink({ href, children, text }: { href: string; children?: ReactNode; text: string }) {
  const url = safeLink(href);
  if (!url) {
    return (
      <span className="dead-link">
        {children ?? text} <span className="target">({plain(href) || "no address"})</span>
      </span>
    );
  }
  const same = text.trim() === href || text.trim() === url.href || text.trim() + "/" === url.href;
  return (
    <>
      <button type="button" className="link" title={url.href} onClick={() => ask(url)}>
        {same ? url.href : (children ?? text)}
      </button>
      {!same && <span className="target"> ({url.href})</span>}
    </>
  );
}

/** The dialog that asks; there is one for the page. */
export function LinkDialog() {
  const url = useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => asked,
  );
  if (!url) return null;
  const close = () => ask(null);
  return (
    <Dialog
      title="Open this address?"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Stay here</Button>
          <Button icon="copy" onClick={() => copyText(url.href)}>
            Copy
          </Button>
          <a className="button primary" href={url.href} target="_blank" rel="noopener noreferrer" onClick={close}>
            <span>Open in a new tab</span>
          </a>
        </>
      }
    >
      <p>The link came from the agent or from a file in its sandbox. It leads to:</p>
      <p className="link-target">
        {url.protocol}//<strong>{url.host}</strong>
        {url.href.slice(url.href.indexOf(url.host) + url.host.length)}
      </p>
    </Dialog>
  );
}
