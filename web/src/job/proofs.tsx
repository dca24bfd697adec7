import { useState } from "react";
import type { Proof } from "../api/types";
import { duration } from "../model/format";
import { plain } from "../model/ansi";
import { Icon } from "../ui/icons";
import { ExternalLink } from "../ui/link";
import { Output } from "../ui/rich";
import { Picture } from "./images";

/** The proofs: commands that were run and pages that were opened. */
export function ProofList({ proofs, compact }: { proofs: Proof[]; compact?: boolean }) {
  return (
    <ul className="proofs">
      {proofs.map((p, i) => (
        <ProofRow key={i} proof={p} compact={compact} />
      ))}
    </ul>
  );
}

function ProofRow({ proof, compact }: { proof: Proof; compact?: boolean }) {
  const holds = proof.exit_code === 0;
  const [chosen, setOpen] = useState<boolean | null>(null);
  const open = chosen ?? (!holds || (!compact && !!proof.screenshot));
  const console = proof.console ?? [];
  return (
    <li className={holds ? "holds" : "fails"}>
      <button type="button" className="proof-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={holds ? "check" : "cross"} />
        <code>{plain(proof.page || proof.command || "")}</code>
        <span className="visually-hidden">{holds ? "holds" : "fails"}</span>
        <span className="tool-time">
          {!holds && proof.command ? `exit ${proof.exit_code} \u00b7 ` : ""}
          {duration(proof.duration_ms)}
        </span>
      </button>
      {open && (
        <div className="proof-body">
          {proof.page && (
            <p className="muted">
              {proof.title && <>{plain(proof.title)} &middot; </>}
              <ExternalLink href={proof.page} text={proof.page} />
            </p>
          )}
          {proof.screenshot && <Picture handle={proof.screenshot} alt={`The page ${plain(proof.title || proof.page || "")}`} />}
          {proof.output && <Output text={proof.output} />}
          {console.length > 0 && (
            <>
              <h4>Errors in its console</h4>
              <Output text={console.join("\n")} />
            </>
          )}
        </div>
      )}
    </li>
  );
}
