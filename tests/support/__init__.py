"""What tests share: a real server on a temporary state folder, a small client, and looks at real
processes.
"""
