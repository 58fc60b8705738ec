import { parseArgs } from 'node:util';

const USAGE = `npm run bench -- [options]

  --only drover,graphile     systems: drover, graphile, pgboss, bullmq-pg, bullmq, bee-queue (or bullmq@always …)
  --workloads a,b,c          workloads: a b c d e s f g h i idle workers history
  --repeats 3                repetitions; tables give the median and (min–max)
  --scale 1                  factor to the number of jobs
  --cold                     measure processes that have just been started, without the warm-up
  --quick                    scale 0.1, one repetition, durable systems: a look during development, no result
  --pg auto|system|embedded|URL   which PostgreSQL (auto: the system's, else embedded)
  --dir /var/tmp             where the stores keep their data while the run lasts
  --json file                write all samples and the summary as one JSON document too
`;

export function parseOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      workloads: { type: 'string' },
      repeats: { type: 'string' },
      scale: { type: 'string' },
      cold: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      pg: { type: 'string', default: 'auto' },
      dir: { type: 'string', default: '/var/tmp' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return { help: USAGE };
  return {
    cold: values.cold,
    quick: values.quick,
    only: list(values.only),
    workloads: list(values.workloads),
    repeats: number('repeats', values.repeats ?? (values.quick ? '1' : '3')),
    scale: number('scale', values.scale ?? (values.quick ? '0.1' : '1')),
    pg: values.pg,
    dir: values.dir,
    json: values.json,
  };
}

function list(text) {
  return text?.split(',').filter((item) => item !== '');
}

function number(name, text) {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${name} must be a number above 0, not ${text}`);
  return value;
}
