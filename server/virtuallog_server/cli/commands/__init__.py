"""The definitions of all commands: names, options, help. Each calls its module in the rooms beside this one.

`--help` imports these modules and click alone. So they import what a command runs with inside of its function, and types under
TYPE_CHECKING. A test names the modules that must not be loaded.
"""
