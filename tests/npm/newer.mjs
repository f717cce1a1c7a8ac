// A server on the TypeScript SDK 2 that speaks MCP 2026-07-28 and nothing older, by the SDK's own option: `newer.mjs [--http]`.
import { createServer } from 'node:http';
import { McpServer, createMcpHandler, fromJsonSchema } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const BYTES = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
const TEXT = '# Text\n' + 'line\n'.repeat(3000) + 'the last line, grüß gott';

const object = (properties) =>
  fromJsonSchema({ type: 'object', properties, required: Object.keys(properties) });
const content = (rest) => async (uri) => ({ contents: [{ uri: uri.href, ...rest }] });

function make() {
  const made = new McpServer({ name: 'newer-typescript', version: '7.1' });
  made.registerResource('text', 'x:///text', {}, content({ mimeType: 'text/markdown', text: TEXT }));
  made.registerResource('bytes', 'x:///bytes', {}, content({ blob: BYTES.toString('base64') }));
  made.registerTool(
    'add',
    { inputSchema: object({ a: { type: 'number' }, b: { type: 'number' } }) },
    async ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
  );
  made.registerPrompt(
    'review',
    { argsSchema: object({ code: { type: 'string' } }) },
    async ({ code }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Review ${code}.` } }] }),
  );
  return made;
}

if (process.argv.includes('--http')) {
  const handler = createMcpHandler(make, { legacy: 'reject' });
  const server = createServer(async (incoming, outgoing) => {
    const pieces = [];
    for await (const piece of incoming) pieces.push(piece);
    const body = pieces.length ? Buffer.concat(pieces) : undefined;
    const url = `http://127.0.0.1:${server.address().port}${incoming.url}`;
    const answer = await handler.fetch(new Request(url, { method: incoming.method, headers: incoming.headers, body }));
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
    outgoing.end(Buffer.from(await answer.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1', () => console.error(`http://127.0.0.1:${server.address().port}`));
} else {
  serveStdio(make, { legacy: 'reject' });
}
