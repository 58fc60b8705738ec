/** The report as Markdown: one table of figures, one of verdicts, and what disturbed the run. */
import { ROWS } from '../targets.mjs';
import { summarize } from './statistics.mjs';

const SUBJECT = 'drover';

/** Samples by metric and system: `summary[metric][system]` is `{ median, min, max, n }`. */
export function summarizeSamples(samples) {
  const values = {};
  for (const { system, metrics } of samples) {
    for (const [metric, value] of Object.entries(metrics ?? {})) {
      values[metric] ??= {};
      values[metric][system] ??= [];
      values[metric][system].push(value);
    }
  }
  return mapValues(values, (bySystem) => mapValues(bySystem, summarize));
}

export function renderReport({ samples, systems, description }) {
  const summary = summarizeSamples(samples);
  const rows = ROWS.filter((row) => summary[row.metric] !== undefined);
  return [
    '# Benchmark\n',
    ...description.map((line) => `- ${line}`),
    '\n## Figures: median (min–max)\n',
    figuresTable(rows, summary, systems),
    '\n## Drover against the bars\n',
    'The best peer is the best durable one of this run. A ratio above 1 is in Drover’s favour, also where lower is better.\n',
    verdictTable(rows, summary, systems),
    '\n## Noise and failures\n',
    noiseText(samples),
    '',
  ].join('\n');
}

function figuresTable(rows, summary, systems) {
  const head = ['', ...systems.map((system) => system.name)];
  const body = rows.map((row) => [
    row.title,
    ...systems.map((system) => showSummary(summary[row.metric][system.name])),
  ]);
  return table(head, body);
}

function verdictTable(rows, summary, systems) {
  const judged = rows.filter((row) => row.firstBar !== undefined && summary[row.metric][SUBJECT] !== undefined);
  if (judged.length === 0) return 'Drover was not measured.';
  const head = ['', 'Drover', 'best durable peer', 'ratio', 'first bar', 'met', 'goal', 'met'];
  const body = judged.map((row) => {
    const figures = summary[row.metric];
    const own = figures[SUBJECT].median;
    const peer = bestPeer(row, figures, systems);
    return [
      row.title,
      show(own),
      peer === undefined ? '–' : `${peer} ${show(figures[peer].median)}`,
      peer === undefined ? '–' : `${favour(row, own, figures[peer].median).toFixed(2)}×`,
      ...judge(row.firstBar, own, figures),
      ...judge(row.goal, own, figures),
    ];
  });
  return table(head, body);
}

/** [what is asked, whether it is met] */
function judge(bar, own, figures) {
  if (bar === undefined) return ['–', '–'];
  const factor = bar.atLeast ?? bar.atMost;
  const sign = bar.atLeast === undefined ? '≤' : '≥';
  if (bar.peer === undefined) return [`${sign} ${factor}`, yesNo(meets(bar, own, 1))];
  const peer = figures[bar.peer];
  const asked = `${sign} ${factor.toFixed(1)}× ${bar.peer}`;
  if (peer === undefined) return [asked, 'not measured'];
  return [`${asked} = ${show(peer.median * factor)}`, yesNo(meets(bar, own, peer.median))];
}

function meets(bar, own, unit) {
  return bar.atLeast === undefined ? own <= bar.atMost * unit : own >= bar.atLeast * unit;
}

function bestPeer(row, figures, systems) {
  const peers = systems.filter((system) => system.durable && system.name !== SUBJECT && figures[system.name]);
  const names = peers.map((system) => system.name);
  return names.reduce(
    (best, name) => (best === undefined || favour(row, figures[name].median, figures[best].median) > 1 ? name : best),
    undefined,
  );
}

function favour(row, own, other) {
  return row.better === 'higher' ? own / other : other / own;
}

function noiseText(samples) {
  const lines = [];
  const measured = samples.filter((sample) => sample.noise?.foreign !== undefined);
  if (measured.length > 0) {
    const foreign = measured.map((sample) => sample.noise.foreign);
    const steal = measured.map((sample) => sample.noise.steal);
    lines.push(
      `- CPU used by others, in cores: median ${summarize(foreign).median}, worst ${Math.max(...foreign)}; ` +
        `stolen by the hypervisor: median ${summarize(steal).median}, worst ${Math.max(...steal)}.`,
    );
    const noisy = measured.filter((sample) => sample.noise.foreign + sample.noise.steal > 0.2);
    if (noisy.length > 0) {
      const names = noisy.map((sample) => `${sample.workload} ${sample.system} #${sample.repeat}`);
      lines.push(`- **Disturbed samples** (over 0.2 cores): ${names.join(', ')}.`);
    }
  }
  for (const sample of samples) {
    const name = `${sample.workload} ${sample.system} #${sample.repeat}`;
    if (sample.error !== undefined) lines.push(`- **Failed**: ${name}: ${sample.error.split('\n')[0]}`);
    if (sample.closeError !== undefined)
      lines.push(`- Not closed cleanly: ${name}: ${sample.closeError.split('\n')[0]}`);
    if (sample.complete === false) lines.push(`- Cut off by the time limit: ${name} after ${sample.jobs} jobs.`);
    if (sample.startedTwice > 0) lines.push(`- **Started twice**: ${name}: ${sample.startedTwice} jobs.`);
  }
  return lines.length === 0 ? '- Nothing to report.' : lines.join('\n');
}

function showSummary(figures) {
  if (figures === undefined) return '–';
  if (figures.n === 1) return show(figures.median);
  return `${show(figures.median)} (${show(figures.min)}–${show(figures.max)})`;
}

/** Three digits are all that the noise leaves. */
export function show(value) {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) < 10) return value.toFixed(2);
  if (Math.abs(value) < 100) return value.toFixed(1);
  const digits = Number(value.toPrecision(3));
  return String(digits).replace(/\B(?=(\d{3})+$)/g, ' ');
}

function yesNo(met) {
  return met ? 'yes' : '**no**';
}

function table(head, body) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...body.map(line)].join('\n');
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}
