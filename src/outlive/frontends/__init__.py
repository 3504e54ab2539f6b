"""The doors: each translates one protocol to calls of the engine and knows no other door.

`listeners`, `http_server`, `websocket_io`, `guard` and `front_page` are what all of them stand on.
"""
