"""The terminal bridge, through the really running server, against an extension that does what document 003
says and no more.
"""
