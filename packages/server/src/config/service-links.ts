/**
 * Kubernetes gives every container the addresses of the Services in its namespace as variables. For a Service named
 * `drover` or `drover-db` these start with `DROVER_`, and `DROVER_PORT` is also the name of a setting. They are
 * recognised by their name together with the form of their value, because a Service can have any name.
 */
const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|[\da-f:]+:[\da-f:]*)$/i;
const NUMBER = /^\d{1,5}$/;
const URL = /^(tcp|udp|sctp):\/\/\S+:\d{1,5}$/;
const PROTOCOL = /^(tcp|udp|sctp)$/;

const SHAPES: readonly { name: RegExp; value: RegExp }[] = [
  { name: /_SERVICE_HOST$/, value: ADDRESS },
  // a named port has its name at the end
  { name: /_SERVICE_PORT(_[A-Z\d_]+)?$/, value: NUMBER },
  { name: /_PORT(_\d+_(TCP|UDP|SCTP))?$/, value: URL },
  { name: /_PORT_\d+_(TCP|UDP|SCTP)_PROTO$/, value: PROTOCOL },
  { name: /_PORT_\d+_(TCP|UDP|SCTP)_PORT$/, value: NUMBER },
  { name: /_PORT_\d+_(TCP|UDP|SCTP)_ADDR$/, value: ADDRESS },
];

export function isServiceLink(name: string, value: string): boolean {
  return SHAPES.some((shape) => shape.name.test(name) && shape.value.test(value));
}
