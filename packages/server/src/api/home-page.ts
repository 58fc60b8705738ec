/**
 * The page that a browser gets at `/`. It is one static document without scripts and without anything from elsewhere. It
 * says nothing of this installation but the version, because callers need no credential.
 */
import { createHash } from 'node:crypto';
import { ROUTES } from '@drover/protocol';
import { VERSION } from '../version.js';

const STYLE = `
:root { color-scheme: light dark; --text: #1c2330; --muted: #566073; --line: #dde2ea; --back: #f6f7f9; --card: #fff;
  --accent: #1a5fb4; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e7eaf0; --muted: #a0a9b8; --line: #2d3542; --back: #12161d; --card: #1a2029; --accent: #7fb3f5; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 36rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 2rem; }
header { display: flex; align-items: center; gap: .75rem; }
svg { width: 2.25rem; height: 2.25rem; flex: none; color: var(--accent); }
h1 { margin: 0; font-size: 1.5rem; line-height: 1.2; }
.version { margin-left: auto; color: var(--muted); font-variant-numeric: tabular-nums; }
p { margin: 1rem 0; }
ul { list-style: none; margin: 1.5rem 0; padding: 0; border-top: 1px solid var(--line); }
li { border-bottom: 1px solid var(--line); }
a { color: inherit; text-decoration: none; display: block; padding: .75rem 0; }
a:hover strong, a:focus-visible strong { text-decoration: underline; }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
strong { color: var(--accent); font-weight: 600; display: block; }
.muted, li span { color: var(--muted); }
pre { margin: 1rem 0 0; padding: .75rem 1rem; overflow-x: auto; background: var(--back); border: 1px solid var(--line);
  border-radius: 8px; font: .875rem/1.6 ui-monospace, monospace; }
@media (max-width: 480px) { body { padding: .75rem; place-items: start center; } main { padding: 1.25rem; } }
`;

const ICON_PATHS =
  '<path d="M4 8h11M4 16h16M4 24h11" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round"/>' +
  '<circle cx="24" cy="8" r="4" fill="currentColor"/><circle cx="24" cy="24" r="4" fill="currentColor"/>';
const ICON = encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" color="#1a5fb4">${ICON_PATHS}</svg>`,
);

const LINKS = [
  [ROUTES.openApi.path, 'API', 'All routes as OpenAPI 3.1.'],
  [ROUTES.deepPing.path, 'Health', 'Whether this server and its database work.'],
  [ROUTES.metrics.path, 'Metrics', 'For Prometheus; needs a token if the server has tokens.'],
] as const;

export const HOME_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Drover</title>
<link rel="icon" href="data:image/svg+xml,${ICON}">
<style>${STYLE}</style>
</head>
<body>
<main>
<header>
<svg viewBox="0 0 32 32" aria-hidden="true">${ICON_PATHS}</svg>
<h1>Drover</h1>
<span class="version">${VERSION}</span>
</header>
<p>Distributed jobs and schedules on PostgreSQL. This server is running.</p>
<ul>
${LINKS.map(([path, name, meaning]) => `<li><a href="${path}"><strong>${name}</strong><span>${meaning}</span></a></li>`).join('\n')}
</ul>
<p class="muted">The command line shows what the servers do. The documentation begins with <code>docs/README.md</code> in the
repository.</p>
<pre>npx drover stats
npx drover job list
npx drover --help</pre>
</main>
</body>
</html>
`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** A browser loads nothing for the page, runs no script, and shows it in no other page. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${STYLE_HASH}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');
