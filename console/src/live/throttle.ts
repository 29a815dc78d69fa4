/** Run `read` at once, then at most once in `ms`, and once more after the last request. */
export function throttled(read: () => Promise<void>, ms = 1000): () => void {
  let running = false;
  let again = false;
  const run = async (): Promise<void> => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      const next = new Promise((resolve) => setTimeout(resolve, ms));
      await read().catch(() => {});
      await next;
    } while (again);
    running = false;
  };
  return () => void run();
}

/** Collect calls until the next paint, or for a tenth of a second while the page is hidden. */
export function oncePerPaint(flush: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    const run = (): void => {
      asked = false;
      flush();
    };
    if (document.hidden) setTimeout(run, 100);
    else requestAnimationFrame(run);
  };
}
