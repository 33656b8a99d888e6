"""Views: what the pages show, as frozen classes of plain values. Each function gathers one of them within a stated bound.

    an open client of the cluster + a `Viewer` (role, masks) -> chain, nodes, holds, entries, tree, live -> `plain` -> JSON, or a template

Two rules hold for all of them. What failed is said in the view: a silent node is a row with a reason, and a function raises only for wrong
arguments. And a value that the viewer may not see is not in the view at all, so no template can show it by mistake.
"""
