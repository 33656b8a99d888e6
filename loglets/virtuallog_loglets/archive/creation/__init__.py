"""Creation of archives from closed segments: data files, manifest, verification, and the way back.

May import all other rooms of the archive.
"""
