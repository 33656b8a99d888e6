"""Common machinery of engines (SOSP'21, figure 2).

The contract between layers, the layer that passes everything on, the layer with commands of its own
in the log, and the observer between layers. Imports the pure core; no engine.
"""
