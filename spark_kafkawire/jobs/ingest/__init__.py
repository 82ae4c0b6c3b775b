"""Writes topics to files, from the end of the last run to the current end, each message exactly once.

A run reads one batch. It decides and records first which offsets it reads, and they never change:

    1  record      STATE/7.planned.json      which offsets of which partition are batch 7
    2  write       OUTPUT/_kafkawire/unfinished/7-ATTEMPT/
    3  show        rename that to OUTPUT/batch=7
    4  commit      the batch's last offsets, to the group (with --group)
    5  finish      rename STATE/7.planned.json to 7.done.json

Wherever a run is killed, the next run finds one of these states:

    newest plan   OUTPUT/batch=N   the next run
    none or done  there            plans the next batch
    planned       missing          reads the plan's offsets again, continues at 2
    planned       there            continues at 4

Steps 1, 3 and 5 are atomic (see ``spark.Files``), step 2 is invisible until step 3, and step 4 may be
repeated. So the output has each message of batch 7 once after step 3, and none before it. The offsets of two
batches do not overlap, because a plan begins where the one before it ends.

A plan begins where the newest plan ends, even if the group was changed meanwhile. A topic that was never read
begins at the offset that the group has committed, or at ``--starting`` if there is no such offset. New
partitions, and a topic that was deleted and created again, are read from their beginning.

Only one run at a time may write to an output. ``sole_run`` keeps others out; where it cannot, the run that is
overtaken fails before it shows anything. Readers see complete batches only.
"""
