/** Beginnings the built-in pair, which has learned Go, continues well. */
export const EXAMPLES: readonly { label: string; prompt: string }[] = [
  { label: "Table test", prompt: "func TestString(t *testing.T) {\n\tfor _, tt := range tests {\n" },
  { label: "Close", prompt: "// Close closes the file.\nfunc (f *File) Close() error {\n" },
  { label: "Server", prompt: "func (s *Server) Serve(l net.Listener) error {\n\tdefer l.Close()\n\tfor {\n" },
  { label: "Benchmark", prompt: "func BenchmarkEncode(b *testing.B) {\n" },
  { label: "Maximum", prompt: "func max(a, b int) int {\n\tif a" },
];

/** What a widget begins with: its attribute, or an example where the built-in pair continues it. */
export function beginning(host: HTMLElement): string {
  return host.getAttribute("prompt") ?? (host.hasAttribute("target") ? "" : EXAMPLES[0]!.prompt);
}
