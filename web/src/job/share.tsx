import { useState } from "react";
import { address, message } from "../api/http";
import { makeLink, type LinkScope } from "../api/machine";
import { Button, Segmented } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { copyText } from "../ui/toast";
import { useJob } from "./context";

const hours = { "1": "1 hour", "24": "1 day" } as const;

/** Makes a link that lets someone without a token see this job, for a while. */
export function ShareButton() {
  const { id } = useJob();
  const [open, setOpen] = useState(false);
  const [scope, setScope] = useState<LinkScope>("view");
  const [ttl, setTtl] = useState<keyof typeof hours>("1");
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  const make = async () => {
    setError("");
    try {
      const link = await makeLink(id, scope, Number(ttl) * 3600);
      setUrl(/^https?:/.test(link.url) ? link.url : address(link.url));
    } catch (err) {
      setError(message(err));
    }
  };
  return (
    <>
      <Button small kind="quiet" icon="link" onClick={() => setOpen(true)}>
        Share
      </Button>
      {open && (
        <Dialog
          title="Share this job"
          onClose={() => {
            setOpen(false);
            setUrl("");
          }}
          footer={
            url ? (
              <Button kind="primary" icon="copy" onClick={() => void copyText(url)}>
                Copy
              </Button>
            ) : (
              <Button kind="primary" icon="link" onClick={() => void make()}>
                Make the link
              </Button>
            )
          }
        >
          <p>Whoever has the link sees this job, and no other, until the link expires.</p>
          <div className="share-choices">
            <Segmented
              label="What it allows"
              value={scope}
              choices={[
                { value: "view", label: "Watch" },
                { value: "control", label: "Control" },
              ]}
              onChange={(v) => {
                setScope(v);
                setUrl("");
              }}
            />
            <Segmented
              label="How long it holds"
              value={ttl}
              choices={[
                { value: "1", label: hours["1"] },
                { value: "24", label: hours["24"] },
              ]}
              onChange={(v) => {
                setTtl(v);
                setUrl("");
              }}
            />
          </div>
          {url && <input className="share-url" readOnly value={url} aria-label="The link" onFocus={(e) => e.currentTarget.select()} />}
          {error && (
            <p className="note bad" role="alert">
              {error}
            </p>
          )}
        </Dialog>
      )}
    </>
  );
}
