// One conversation with Duetime by a client of the TypeScript SDK: version 1 speaks the older era, version 2 the newer.
// Takes {"era", "url", "token"} or {"era", "command", "cwd", "env"} as JSON; prints what it learned as JSON.

const asked = JSON.parse(process.argv[2]);
const [SDK, STDIO, HTTP] =
  asked.era === "2025-11-25"
    ? ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js",
       "@modelcontextprotocol/sdk/client/streamableHttp.js"]
    : ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio", "@modelcontextprotocol/client"];
const { Client } = await import(SDK);
const { StdioClientTransport } = await import(STDIO);
const { StreamableHTTPClientTransport } = await import(HTTP);

function transport() {
  if (asked.command) {
    const [command, ...args] = asked.command;
    return new StdioClientTransport({ command, args, cwd: asked.cwd, env: asked.env, stderr: "ignore" });
  }
  return new StreamableHTTPClientTransport(new URL(asked.url), {
    requestInit: { headers: { Authorization: `Bearer ${asked.token}` } },
  });
}

function within(milliseconds, promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${milliseconds} ms: ${what}`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function onUpdate(client, told) {
  if (asked.era === "2025-11-25") {
    const { ResourceUpdatedNotificationSchema } = await import("@modelcontextprotocol/sdk/types.js");
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (message) => told(message.params.uri));
  } else {
    client.setNotificationHandler("notifications/resources/updated", (message) => told(message.params.uri));
  }
}

const options = asked.era === "2025-11-25" ? {} : { versionNegotiation: { mode: { pin: asked.era } } };
const client = new Client({ name: "duetime-test", version: "1" }, options);
await client.connect(transport());

const call = async (name, args) => client.callTool({ name, arguments: args });
const { tools } = await client.listTools();
const topic = `node-${process.pid}`;
const uri = `schedules://${topic}`;

let tell;
const heard = new Promise((resolve) => { tell = resolve; });
await onUpdate(client, tell);
if (asked.era === "2025-11-25") await client.subscribeResource({ uri });
else await client.listen({ resourceSubscriptions: [uri] });

const made = await call("schedule_cron_notification", {
  message: "Water the plants", notification_topic: topic, cron: "0 9 * * 1-5", timezone: "Europe/Berlin",
});
const updated = await within(5000, heard, "a change is heard of");
const content = JSON.parse((await client.readResource({ uri })).contents[0].text);
const schedule_id = made.structuredContent.schedule_id;
const deleted = await call("delete_schedule", { schedule_id });
const again = await call("delete_schedule", { schedule_id });
const refused = await call("delete_schedule", {});
const scheduled = await call("schedule", { prompt: "water the plants", at: "2031-02-10 3:00 PM" });
const unknown = await call("job_status", { job_id: "job_1_1738764000" });
const prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);

console.log(JSON.stringify({
  server: client.getServerVersion()?.name,
  tools: tools.map((tool) => tool.name),
  schemas: tools.every((tool) => tool.outputSchema && tool.annotations),
  made: made.structuredContent, updated, uri, content,
  deleted: deleted.structuredContent, again: again.structuredContent,
  refused: { isError: refused.isError, text: refused.content[0].text },
  scheduled: scheduled.content[0].text, unknown: unknown.structuredContent, prompts,
}));
await client.close();
process.exit(0);
