/** Formats the report as Markdown. */

const number = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

/** Formats a median, with its range if there are several values. */
export function cell(value) {
  if (!value) return "–";
  return value.n > 1 ? `${number(value.median)} (${number(value.min)}–${number(value.max)})` : number(value.median);
}

/** Describes how an output compares with our plain decoding. */
export function sameness(agreement) {
  if (!agreement) return "–";
  if (agreement.at < 0) return `same, ${agreement.tokens} tokens`;
  return `differs from token ${agreement.at + 1}`;
}

/** The share of what memory gives to an engine's threads that its weights take, of those read for each token. */
function share(report, model, engine) {
  const { memory } = report;
  if (!memory || !engine.decode_tok_s) return undefined;
  const most = engine.name.endsWith("-1") ? memory.one_gb_s : memory.all_gb_s;
  return (model.weights * engine.decode_tok_s.median) / 1e9 / most;
}

/** The tokens of a long prompt that an engine reads a second. */
const reading = ({ read }) => (read?.ttft_ms ? (1000 * read.tokens) / read.ttft_ms : undefined);

/** Returns one table per model; the ratio to our plain decoding on one thread compares medians. */
export function markdown(report) {
  const { memory } = report;
  const out = [
    `${report.machine}. ${Object.entries(report.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ")}.`,
    `Greedy, ${report.tokens} tokens, ${report.repeat} interleaved repetitions after ${report.warm} s of warming up, ` +
      `each at most ${report.seconds} s; medians (least–most).`,
  ];
  if (memory)
    out.push(`Memory: ${number(memory.one_gb_s)} GB/s by one thread, ${number(memory.all_gb_s)} GB/s by all.`);
  for (const model of report.models) {
    out.push(
      "",
      `**${model.name}**, prompt of ${model.prompt_tokens} tokens`,
      "",
      "| engine | decode tok/s | of plain | first token, ms | with it, tok/s | prompt tok/s | of memory | output |",
      "|---|---|---|---|---|---|---|---|",
    );
    const plain = model.engines.find((e) => e.name === "ours-1")?.decode_tok_s?.median;
    for (const e of model.engines) {
      const title = `${e.title}, ${e.home}`;
      if (e.problem) out.push(`| ${title} | – | | | | | | ${e.problem} |`);
      else {
        const ratio = plain && e.decode_tok_s ? `${number(e.decode_tok_s.median / plain)}×` : "–";
        const note = [sameness(e.agreement), e.note].filter(Boolean).join("; ");
        const [tokens, part] = [reading(e), share(report, model, e)];
        const prompt = tokens ? number(tokens) : (e.read?.problem ?? "–");
        const memory = part ? `${(100 * part).toFixed(0)} %` : "–";
        out.push(
          `| ${title} | ${cell(e.decode_tok_s)} | ${ratio} | ${cell(e.ttft_ms)} | ${cell(e.whole_tok_s)} ` +
            `| ${prompt} | ${memory} | ${note} |`,
        );
      }
    }
  }
  return out.join("\n") + "\n";
}

/** The report without outputs and single repetitions. */
export function rows(report) {
  const row = (model, engine) => {
    const { name, title, home, problem, note, agreement, decode_tok_s, ttft_ms } = engine;
    const [prompt_tok_s, of_memory] = [reading(engine), share(report, model, engine)];
    return { name, title, home, problem, note, agreement, decode_tok_s, ttft_ms, prompt_tok_s, of_memory };
  };
  return {
    ...report,
    models: report.models.map((model) => ({
      name: model.name,
      prompt_tokens: model.prompt_tokens,
      long_tokens: model.engines.find((e) => e.read?.tokens)?.read.tokens,
      weights: model.weights,
      engines: model.engines.map((engine) => row(model, engine)),
    })),
  };
}
