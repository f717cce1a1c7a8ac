"""A server over stdio that sends exactly what it is told: for replies that no SDK would write.

    python raw.py REPLIES.json

`REPLIES.json` maps a method to a list of replies, taken in order (the last one stays): an object is a result, a string is
written as a raw line with `@ID@` replaced by the request's id, `null` is silence.
"""

import json
import sys

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"resources": {}, "prompts": {}, "tools": {}},
    "serverInfo": {"name": "raw", "version": "1"},
}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        replies = json.load(file)
    replies.setdefault("initialize", [INITIALIZE])
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        waiting = replies.get(request["method"], [{}])
        reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if reply is None:
            continue
        if not isinstance(reply, str):
            reply = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": reply})
        print(reply.replace("@ID@", str(request["id"])), flush=True)


if __name__ == "__main__":
    main()
