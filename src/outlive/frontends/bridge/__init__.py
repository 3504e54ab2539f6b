"""The terminal bridge: extensions of VS Code that dial in or are dialled, and the terminals behind them (promises S3.1 to S3.9)."""

from outlive.frontends.bridge.door import PATH as BRIDGE_PATH
from outlive.frontends.bridge.door import BridgeFrontend
from outlive.frontends.bridge.transport import BridgeSettings

__all__ = ["BRIDGE_PATH", "BridgeFrontend", "BridgeSettings"]
