/** Artifacts: text, code and Markdown by our own renderers, pictures as pictures, HTML as its source and as a preview. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get, url } from "../../api/client";
import { inSpace } from "../../api/space";
import type { Artifact, ArtifactDetail } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import type { Call } from "../../log/run_log";
import { languageOf } from "../../parts/code";
import { size } from "../../parts/format";
import { Icon } from "../../parts/icon";
import { Markdown } from "../../parts/markdown";
import { words } from "../../words/en";
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
  const artifact = useSignal<ArtifactDetail | null>(null);
  const version = useSignal<number | null>(null);
  const error = useSignal("");
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (!dialog.current?.open) dialog.current?.showModal();
    get<ArtifactDetail>(url(`/api/artifacts/${id}`, { version: version.value }))
      .then((found) => (artifact.value = found))
      .catch((failed: unknown) => (error.value = failed instanceof Error ? failed.message : String(failed)));
  }, [id, version.value, artifact, error]);
  const versions = artifact.value?.versions ?? [];
  return (
    <dialog ref={dialog} class="wide" aria-label={artifact.value?.title ?? "Artifact"} onClose={onClose}>
      <header>
        <h2>{artifact.value?.title ?? "…"}</h2>
        {versions.length > 1 && (
          <select
            aria-label="Version"
            value={artifact.value?.version}
            onChange={(event) => (version.value = Number(event.currentTarget.value))}
          >
            {versions.map((each) => (
              <option key={each.version} value={each.version}>
                version {each.version}
              </option>
            ))}
          </select>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      {error.value && <p class="fail">{error.value}</p>}
      {artifact.value && <Content key={artifact.value.version} artifact={artifact.value} />}
    </dialog>
  );
}

function Content({ artifact }: { artifact: Artifact }) {
  const type = (artifact.media_type ?? "text/plain").split(";")[0] ?? "";
  const address = artifact.file_id ? inSpace(`/api/files/${artifact.file_id}/content`) : null;
  const preview = inSpace(url(`/api/artifacts/${artifact.id}/preview`, { version: artifact.version }));
  if (type === "image/svg+xml") return <img src={preview} alt={artifact.title} />;
  if (type === "text/html") return <Html artifact={artifact} preview={preview} address={address} />;
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
  return <Text label={artifact.title} text={artifact.content} language={languageOfArtifact(artifact, type)} />;
}

/** A page, as its source and as a preview: the frame has an origin of its own, and neither scripts nor servers. */
function Html({ artifact, preview, address }: { artifact: Artifact; preview: string; address: string | null }) {
  const shown = useSignal(artifact.content == null);
  return (
    <>
      <div class="tabs">
        {artifact.content != null && (
          <button type="button" class="bare" aria-pressed={!shown.value} onClick={() => (shown.value = false)}>
            Source
          </button>
        )}
        <button type="button" class="bare" aria-pressed={shown.value} onClick={() => (shown.value = true)}>
          Preview
        </button>
        {address && (
          <a class="link" href={address} download>
            Download
          </a>
        )}
      </div>
      {shown.value ? (
        <>
          <iframe class="preview" sandbox="" src={preview} title={`Preview of ${artifact.title}`} />
          <p class="quiet">{words.previewLimits}</p>
        </>
      ) : (
        <Text label={artifact.title} text={artifact.content ?? ""} language="html" />
      )}
    </>
  );
}

const LANGUAGES: Record<string, string> = {
  "application/json": "json",
  "text/css": "css",
  "text/javascript": "js",
  "application/javascript": "js",
  "text/x-python": "python",
  "application/xml": "xml",
  "text/xml": "xml",
  "application/yaml": "yaml",
  "application/sql": "sql",
  "application/x-sh": "sh",
};

/** Code is in the language of its type, or else of the name that it has as its title. */
function languageOfArtifact(artifact: Artifact, type: string): string {
  const named = (artifact.metadata as Record<string, unknown>).language;
  return LANGUAGES[type] ?? (typeof named === "string" ? named : languageOf(artifact.title));
}
