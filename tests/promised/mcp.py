"""The promises of the MCP door."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "W.session": "A session, JSON-RPC or MCP, can be restored.",
    "W.wait-tools": "`wait_s` bounds a call, `timeout` ends the tree; no tool mixes them up.",
    "W.state.tools": "Each engine state has one form in the command tools: success, completed and error.",
    "W.local-time": "Times are UTC inside and local naive ISO where the command tools show them.",
    # command tools
    "S1.1": (
        "The tools command_execute, command_execute_script, command_get_status, command_list_history "
        "are there."
    ),
    "S1.1.size": (
        "The documents' eight tools take at most 12 KB of JSON; what their schemas leave out is taken, too."
    ),
    "S1.2": "A result has exactly the 13 keys, as structuredContent with an output schema and as JSON text.",
    "S1.2.error": "isError is false for every command that ran, whatever its code.",
    "S1.2.signal": "return_code after a kill is minus the signal.",
    "S1.3": "Ids are cmd_<unix seconds>_<counter> and unique for ever, across restarts.",
    "S1.4": (
        "A script's result adds script_path and interpreter; its command is '<interpreter> <path>', its "
        "shell true."
    ),
    "S1.4.file": "The script file is 0700 in a private folder and lives as long as its record.",
    "S1.5": (
        "command_get_status answers found true with the status, or found false with an error, in one schema."
    ),
    "S1.5.ids": (
        "command_get_status takes a command's id, a process's id or its pid while that is the caller's; "
        "the texts of background and long commands name it."
    ),
    "S1.5.running": (
        "A running command shows success false beside running true, completed false, error null, "
        "return_code null, output so far."
    ),
    "S1.6": "command_list_history answers {count, history: [{id, command, start_time, cwd}]}, newest first.",
    "S1.7": "A refusal is {success: false, error, command?} with isError true and one of the fixed texts.",
    "S1.8": (
        "The settings enabled, patterns, timeout, max_output_size, allow_sudo, allow_scripts act as "
        "documented."
    ),
    "S1.8.output": "Output over max_output_size keeps its head and tail with a visible mark.",
    "S1.8.clip": (
        "Official clients are shown 30,000 bytes of each stream unless they ask for more; the mark of a "
        "cut names max_output and the call that shows more. Raw callers get all that S1.8 allows."
    ),
    "S1.9": "A timeout ends the tree, says so, keeps the output and returns within timeout + grace.",
    "S1.10": (
        "A client without progressToken is answered after wait_s (45 s): running true, the id, no "
        "error; it goes on."
    ),
    "S1.10.raw": "Raw callers and callers with a progressToken wait to the end or the command's timeout.",
    "S1.10.background": "`background: true` is wait_s 0.",
    # Streamable HTTP and process management
    "S4.1": "POST /mcp on 8888: initialize gives Mcp-Session-Id; later 400 without it, 404 when unknown.",
    "S4.1.initialized": "Raw callers need not send notifications/initialized.",
    "S4.1.verbs": "GET and DELETE /mcp behave as the MCP revision says.",
    "S4.2": "The four process tools exist, with their texts; isError exactly when the exit code is not 0.",
    "S4.2.exit": (
        "Their texts, those of SSE messages too, name the exit code where it is not 0 or there is no output."
    ),
    "S4.3": (
        "A raw background call streams process_started, stdout and stderr, and at last the result, as SSE."
    ),
    "S4.3.result": "That result joins both streams with the STDERR mark; stderr alone is no error.",
    "S4.3.both": "Raw background calls that accept JSON and event streams get the events.",
    "S4.3.json": "Any other Accept gets plain JSON.",
    "S4.3.official": "An official client gets an answer at once without a progressToken, progress with one.",
    "S4.4": "terminate_process answers its four lines and names the signal that worked.",
    "S4.4.unknown": "An unknown pid is isError with a clear text.",
    "S4.4.own": "Only processes this server started for this principal can be terminated.",
    "S4.5": "list_processes prints the documented blocks, with structuredContent beside them.",
    "S4.5.scope": "Its scope is the principal: jobs stay findable when the host restarts.",
    "S4.6": (
        "notifications/cancelled finds the request by MCP session and id, TERM, TERMINATION_TIMEOUT, KILL."
    ),
    "S4.6.result": (
        "The cancelled stream ends with a result that begins '[Process was terminated]', isError true."
    ),
    "S4.9": "TERMINATION_TIMEOUT and MCP_REMOTE_PORT are read from the environment.",
    "S4.11": "The documented curl commands work as printed; no Accept header or */* is fine.",
    "S4.12.history": "Output history, per-command timeouts, groups and tags are part of the product.",
    "S4.12.metrics": "Metrics are part of the product.",
    "S4.12.restart": "The process registry survives restarts.",
    "S4.12.nodes": (
        "A command runs on another outlive server as it runs here: output, input, control, exit code."
    ),
    "S4.12.nodes.once": (
        "Links to a node that are cut, and servers that are killed, cost no byte, no order and no exit code."
    ),
    "S4.12.nodes.away": (
        "A node that is away keeps nobody waiting; its processes keep their state, with reachable "
        "false at every door, and show the truth when it is back."
    ),
    "S4.12.nodes.silent": (
        "A node that goes silent is reported within 5 s; a start that it has not answered is named, "
        "and runs once when it is back."
    ),
    "S4.12.nodes.joined": (
        "A machine that cannot be reached becomes a node by a code, dials out, and is placed on, "
        "drained and removed like any other."
    ),
    "S4.12.nodes.joined.crash": (
        "Cuts and kills on either side cost a node that dials in no byte, no code and not its place: "
        "it need not join again."
    ),
    "S4.12.nodes.adopted": (
        "What one server has started on a node another one takes over by a command: whole, with its "
        "true end, never started again, also after kills."
    ),
    "S4.12.nodes.trip": (
        "A start on a node is one request: its output and its end come without another one, and no "
        "start waits for another's answer."
    ),
    "S4.12.nodes.files": "Processes on a node hold files open here for the newest output only.",
    "S4.12.nodes.split": (
        "The MCP part near and the process back end far, on two ports, as the documents split them."
    ),
    "S4.13": (
        "The lean tools run, read, wait, send, stop, control, list exist; mcp_tools chooses which "
        "tools are offered."
    ),
    "S4.13.address": (
        "A host over HTTP chooses its tool set in the address (/mcp?tools=lean); a name that is none "
        "is 400 with those that are."
    ),
    "S4.13.size": "The lean schemas together take at most 8 KB of JSON.",
    "S4.13.schemas": (
        "No schema of a tool has a list of types; whole numbers are integers however they are "
        "written, and null is what leaving out means."
    ),
    "S4.13.answers": (
        "A complete answer's header is [exit 0] alone; what is cut shows head, omission mark naming "
        "the next call, tail; never a byte twice."
    ),
    "S4.13.filters": (
        "Of a line that ends in tail, head or grep the exit code before the filter is named, and "
        "what entered it can be read; where nothing of it can be kept, a hint says so."
    ),
    "S4.13.shown": (
        "What a session was shown is not shown again by read, wait, send or stop, and nothing new is "
        "left out."
    ),
    "S4.13.project": (
        "A host's commands run in its folder with its environment, which is in no file; short ids, "
        "keys, workspaces and list are its project's own, also after a kill of the server."
    ),
    "S4.13.keys": (
        "A key starts nothing twice; its result says when it ran, and with another command it is refused."
    ),
    "S4.13.waits": (
        "An end, a text, a port, silence, a failed start or a question answers a call at once; else it "
        "waits until 20 s before its host's known limit, or 50 s; what a host gives up goes on."
    ),
    "S4.13.lenient": (
        "Arguments as models send them are taken where one thing can be meant; all others are "
        "refused with what there is."
    ),
    "S4.13.workspace": (
        "Folder and exported variables of a workspace go on from its last command that exited with 0."
    ),
    "S4.13.words": (
        "What an answer tells a model to do next names tools and arguments of its own tool set only."
    ),
    "S4.13.plain": "ANSI is stripped and progress bars are collapsed unless `raw`.",
    "S4.13.errors": (
        "Of output that is too long, lines that report errors are shown, the first and the last ones first."
    ),
    "S4.13.binary": (
        "Binary output is one line that says its size and kind; `raw` shows it as hexadecimal digits."
    ),
    "S4.13.grep": "`grep` is a regular expression in linear time, smart-case; plain text where it is none.",
    "S4.13.grep.all": (
        "`grep` without an id searches the output of all processes of the project, newest first, "
        "bounded, with calls that lead to the rest."
    ),
    # one endpoint for all MCP clients
    "M.raw": (
        "A caller without MCP-Protocol-Version is raw: extra SSE events, and 204 for notifications/cancelled."
    ),
    "M.official.cancel": "A cancelled request of a caller with MCP-Protocol-Version gets no answer.",
    "M.official": "A caller with the header never gets the extra events, and gets 202 for notifications.",
    "M.handshake": "Handshake revisions up to 2025-11-25 are served; a dropped connection is no cancel.",
    "M.stateless": "Revision 2026-07-28 is served; closing the response stream cancels that request.",
    "M.background": "A background command never dies with its request, only by name.",
    "M.progress": (
        "With a progressToken output arrives as coalesced progress, at least one message every 60 s."
    ),
    "M.left-behind": (
        "What lives of an MCP session that its client has ended is marked, told of as an event, and "
        "stays so after a restart."
    ),
    "M.restart": "A client that holds an MCP session keeps working after the server restarts.",
    "M.ids": (
        "Request ids are echoed with their type and matched as strings within their MCP session; one "
        "that is in use there is refused, and a body that is no JSON is answered with its own."
    ),
    "M.batches": (
        "A session of 2025-03-26 takes batches, answered by one array; elsewhere they are refused "
        "with a sentence."
    ),
    "M.revisions": (
        "A revision that is not served is refused (400) with those that are; initialize agrees on "
        "one with sessions."
    ),
    "M.conformance": "The official conformance suite passes, all that 2025-11-25 and 2026-07-28 score.",
    # the extension io.modelcontextprotocol/tasks
    "M.resources": (
        "The output of each of the caller's processes is a resource, outlive://process/ID/output: "
        "listed, and read as the tools show it."
    ),
    "M.resources.own": "A caller sees and subscribes to its own processes only, with the scope read.",
    "M.resources.updates": (
        "A subscriber is notified of new output and of the end, once a second at most, in both eras "
        "and over stdio."
    ),
    "M.partial": (
        "With the setting mcp_partial_results, calls of the documents' tools stream output to "
        "clients that declare partialResults (SEP-2998)."
    ),
    "M.tasks": "A call that outlasts the server's wait becomes a task; what ends in time is answered.",
    "M.tasks.declared": "Only a request that declares the extension gets a task, and may ask for one.",
    "M.tasks.asked": (
        "A call that says how long to wait, or gives an input, is answered as ever and is no task."
    ),
    "M.tasks.durable": "A task that was given out is there after SIGKILL and restart, with its whole result.",
    "M.tasks.result": "A completed task carries exactly what the tool would have answered.",
    "M.tasks.status": (
        "Every state of a process has one task status; ttlMs and pollIntervalMs follow from the record."
    ),
    "M.tasks.cancel": "tasks/cancel ends the whole tree; a task that has ended stays as it is.",
    "M.tasks.own": "A task is its principal's; nobody else's and unknown ones are -32602.",
    "M.tasks.headers": "Mcp-Name must be the task's id, and the relay sends it.",
}
