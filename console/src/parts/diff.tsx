/** A unified diff, line by line. */
export function Diff({ text, path }: { text: string; path: string }) {
  const lines = text.split("\n").filter((line) => !/^(---|\+\+\+) /.test(line));
  while (lines.at(-1)?.trim() === "") lines.pop();
  return (
    <pre class="diff" tabIndex={0} role="region" aria-label={`What was changed in ${path}`}>
      {lines.map((line, index) => (
        <i
          key={index}
          class={line.startsWith("+") ? "new" : line.startsWith("-") ? "gone" : line.startsWith("@@") ? "at" : ""}
        >
          {/^[-+]/.test(line) ? `${line[0]} ${line.slice(1)}` : line || " "}
        </i>
      ))}
    </pre>
  );
}
