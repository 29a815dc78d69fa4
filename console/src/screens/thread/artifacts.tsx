/** Artifacts: text, code and Markdown by our own renderers, pictures as pictures, HTML as its source. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../../api/client";
import type { Artifact } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import type { Call } from "../../log/run_log";
import { size } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { Markdown } from "../../parts/markdown";
import { parsed, Text } from "./tools/tools";

export function ArtifactCard({ call, view }: { call: Call; view: ThreadView }) {
  const id = String(parsed(call.result ?? "").artifact_id ?? "");
  const known = view.artifacts.value.find((each) => each.id === id);
  const title = known?.title ?? String(parsed(call.args).title ?? "artifact");
  return <ArtifactLine id={id} title={title} known={known} />;
}

export function ArtifactLine({ id, title, known }: { id: string; title: string; known: Artifact | undefined }) {
  const open = useSignal(false);
  const facts = known ? [known.type, `version ${known.version}`, known.size == null ? "" : size(known.size)] : [];
  return (
    <div class="card artifact">
      <Icon name="file" />
      <div>
        <b>{title}</b>
        <span class="quiet">{facts.filter(Boolean).join(" · ")}</span>
      </div>
      <button type="button" disabled={id === ""} onClick={() => (open.value = true)} aria-label={`Open ${title}`}>
        Open
      </button>
      {open.value && <ArtifactDialog id={id} onClose={() => (open.value = false)} />}
    </div>
  );
}

function ArtifactDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const artifact = useSignal<Artifact | null>(null);
  const error = useSignal("");
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    get<Artifact>(`/api/artifacts/${id}`)
      .then((found) => (artifact.value = found))
      .catch((failed: unknown) => (error.value = failed instanceof Error ? failed.message : String(failed)));
  }, [id, artifact, error]);
  return (
    <dialog ref={dialog} class="wide" aria-label={artifact.value?.title ?? "Artifact"} onClose={onClose}>
      <header>
        <h2>{artifact.value?.title ?? "…"}</h2>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      {error.value && <p class="fail">{error.value}</p>}
      {artifact.value && <Content artifact={artifact.value} />}
    </dialog>
  );
}

function Content({ artifact }: { artifact: Artifact }) {
  const type = artifact.media_type ?? "text/plain";
  const address = artifact.file_id ? `/api/files/${artifact.file_id}/content` : null;
  if (address && type.startsWith("image/")) return <img src={address} alt={artifact.title} />;
  if (artifact.content == null)
    return address ? (
      <p>
        <a href={address} download>
          Download
        </a>
      </p>
    ) : (
      <p class="quiet">It is empty.</p>
    );
  const isMarkdown = type === "text/markdown" || (type === "text/plain" && /^#{1,6} /m.test(artifact.content));
  if (isMarkdown)
    return (
      <div class="text">
        <Markdown text={artifact.content} />
      </div>
    );
  return <Text label={artifact.title} text={artifact.content} />;
}
