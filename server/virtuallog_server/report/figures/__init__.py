"""The figures of an HTML report, pure: axes, bars, timelines, the diagram of a chain, and their SVG paths. Imports nothing."""
