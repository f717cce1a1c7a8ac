"""The bundled MCP server (`python -m workbench.demo`) and the offline model that knows nothing of it.

Nothing is imported here: the server's process must not pay for the workbench, nor the workbench for the server.
"""
