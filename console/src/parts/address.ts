/** The address of a link, if it leads to the web or to a mail address; of anything else null. */
export function safeAddress(address: string): string | null {
  try {
    const { protocol, href } = new URL(address);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null;
  }
}
