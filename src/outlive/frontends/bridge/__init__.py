"""The terminal bridge: extensions of VS Code that connect or are connected to, and their terminals (promises
S3.1 to S3.9).

`door` accepts, `dialler` connects; `extension` is one connection, `terminal_owners` remembers terminals,
`host` offers them.
"""

from outlive.frontends.bridge.door import PATH as BRIDGE_PATH
from outlive.frontends.bridge.door import BridgeFrontend

__all__ = ["BRIDGE_PATH", "BridgeFrontend"]
