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

/** Returns one table per model; the ratio to our plain decoding on one thread compares medians. */
export function markdown(report) {
  const out = [
    `${report.machine}; Chromium ${report.chromium}; WebGPU adapter ${report.adapter}.`,
    `${Object.entries(report.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ")}.`,
    `Greedy, ${report.tokens} tokens, ${report.repeat} interleaved repetitions after ${report.warm} s of warming up, ` +
    `each at most ${report.seconds} s; medians (least–most), timed by the driver.`,
  ];
  for (const model of report.models) {
    out.push(
      "",
      `**${model.name}**, prompt of ${model.prompt_tokens} tokens`,
      "",
      "| engine | decode tok/s | against plain | first token, ms | with it, tok/s | output |",
      "|---|---|---|---|---|---|",
    );
    const plain = model.engines.find((e) => e.name === "ours-1")?.decode_tok_s?.median;
    for (const e of model.engines) {
      if (e.problem) out.push(`| ${e.title} | – | | | | ${e.problem} |`);
      else {
        const ratio = plain && e.decode_tok_s ? `${number(e.decode_tok_s.median / plain)}×` : "–";
        const note = [sameness(e.agreement), e.note].filter(Boolean).join("; ");
        out.push(
          `| ${e.title} | ${cell(e.decode_tok_s)} | ${ratio} | ${cell(e.ttft_ms)} | ${cell(e.whole_tok_s)} | ${note} |`,
        );
      }
    }
  }
  return out.join("\n") + "\n";
}

/** The report without outputs and single repetitions. */
export function rows(report) {
  const engine = ({ name, title, problem, note, agreement, decode_tok_s, ttft_ms }) => ({
    name,
    title,
    problem,
    note,
    agreement,
    decode_tok_s,
    ttft_ms,
  });
  return {
    ...report,
    models: report.models.map(({ name, prompt_tokens, engines }) => ({
      name,
      prompt_tokens,
      engines: engines.map(engine),
    })),
  };
}
