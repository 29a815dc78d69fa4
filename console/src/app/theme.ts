/** The theme: that of the system, or the one that this browser chose. */
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const STORE = "holdfast.theme";

export const theme = signal<Theme>(read());

export function setTheme(next: Theme): void {
  theme.value = next;
  localStorage.setItem(STORE, next);
  show();
}

export function show(): void {
  if (theme.value === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme.value);
}

function read(): Theme {
  const stored = localStorage.getItem(STORE);
  return stored === "light" || stored === "dark" ? stored : "system";
}
