"""Registrar: durable tables with one fenced owner, from Mesos, on the storages of `virtuallog_database.state`.

    open_registrar                      registrar.py: the driver, and what users call
        RegistrarMachine                core/machine.py: recovery, batches, fencing
            Batch, Edit                 core/batch.py, core/edit.py: operations on an overlay
            Registry, RecordTable             core/tables.py: typed records in order
        storage.load, storage.update    virtuallog_database.state.records: what is stored, by what has changed

`json_codec.py` makes tables of attrs classes.
"""
