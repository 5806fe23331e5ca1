/** What the built-in pair says: its models lie beside the library, as its worker and the program do. */
export async function tell(Foretoken) {
  try {
    const engine = await Foretoken.load({ device: "cpu", context: 64 });
    const { text } = await engine.generate("func main() {", { max_tokens: 4 }).result;
    await engine.dispose();
    return text;
  } catch (error) {
    return `${error.code}: ${error.message}`;
  }
}
