"""Actions: changes of the cluster by an operator at the console.

    arguments -> plan (dry run) -> typed confirmation, version -> intent record -> act -> outcome record

A plan changes nothing, and shows the effect on the register of one version. `ActionPages` checks confirmation and version, `ActionRunner`
records and acts: one action at a time, in a task of its own. Each other module is one action, which uses what the command line uses.
"""
