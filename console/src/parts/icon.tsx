/** The icons, as strokes on a grid of 16. */
const PATHS = {
  hold: "M9 1.5a2.1 2.1 0 1 0 .01 0M9 5.7v10.1M5.2 8.6h7.6M2.6 11.2c.5 3 3 4.6 6.4 4.6s5.9-1.6 6.4-4.6",
  inbox: "M2.5 9.5 4.3 3.5h7.4l1.8 6v3h-11zM2.7 9.5h3l1 1.6h2.6l1-1.6h3",
  thread: "M3 4h10M3 8h7M3 12h8.5",
  fork: "M4.5 2a1.5 1.5 0 1 0 .01 0M11.5 2a1.5 1.5 0 1 0 .01 0M4.5 11a1.5 1.5 0 1 0 .01 0M4.5 5v6M11.5 5c0 3-7 2-7 5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  term: "m3 5 3 3-3 3M8 11.5h5",
  plan: "m2.5 4.5 1 1 1.8-2M2.5 10.5l1 1 1.8-2M8 4.5h5.5M8 10.5h5.5",
  pen: "m3 13 .7-2.9 7-7 2.2 2.2-7 7zM9.5 4.3l2.2 2.2",
  ok: "m3.5 8.3 3.2 3.2 6-6.8",
  find: "M7 2.7a4.3 4.3 0 1 0 .01 0m3.3 7.6 3.2 3.2",
  agent: "M5 5.5h6a2 2 0 0 1 2 2v3a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-3a2 2 0 0 1 2-2M8 5.5V3M6 8.8v.4M10 8.8v.4",
  globe: "M8 2.5a5.5 5.5 0 1 0 .01 0M2.5 8h11M8 2.5c-4 4-2 9 0 11M8 2.5c4 4 2 9 0 11",
  tool: "M9.5 6.5 13 3M3 13l4.5-4.5M9 3.5a3 3 0 0 0 3.5 3.5M7 8.500a3 3 0 0 0-3.5 3.500",
  ask: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.400M8 11.8h.01M8 2.500a5.500 5.500 0 1 0 .01 0",
  back: "M9.500 3.500 5 8l4.500 4.500",
  down: "M8 3v9M4.500 8.500 8 12l3.500-3.500",
  gear: "M3 5h6M12 5h1M3 11h1M7 11h6M10.500 3.500a1.500 1.500 0 1 0 .01 0M5.500 9.500a1.500 1.500 0 1 0 .01 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, wide }: { name: IconName; wide?: boolean }) {
  return (
    <svg
      aria-hidden="true"
      viewBox={name === "hold" ? "0 0 18 18" : "0 0 16 16"}
      class={wide || name === "more" ? "wide" : undefined}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
