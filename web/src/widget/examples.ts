/** Prompts for the built-in pair, which was trained on Go code. */
export const EXAMPLES: readonly { label: string; prompt: string }[] = [
  { label: "Table test", prompt: "func TestString(t *testing.T) {\n\tfor _, tt := range tests {\n" },
  { label: "Close", prompt: "// Close closes the file.\nfunc (f *File) Close() error {\n" },
  { label: "Server", prompt: "func (s *Server) Serve(l net.Listener) error {\n\tdefer l.Close()\n\tfor {\n" },
  { label: "Benchmark", prompt: "func BenchmarkEncode(b *testing.B) {\n" },
  { label: "Maximum", prompt: "func max(a, b int) int {\n\tif a" },
];

/** Questions for the built-in pair, which learnt from the comments of Go's library. */
export const QUESTIONS: readonly string[] = [
  "What does strings.Fields do?",
  "Which package reads zip files?",
  "Write a table test for Abs.",
];

/** Returns the initial prompt of a widget: its attribute, or an example for the built-in pair. */
export function initialPrompt(host: HTMLElement): string {
  return host.getAttribute("prompt") ?? (host.hasAttribute("target") ? "" : EXAMPLES[0]!.prompt);
}
