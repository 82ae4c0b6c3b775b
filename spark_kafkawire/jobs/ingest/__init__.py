"""Topics into files, from where the last run ended to the logs' ends, each message exactly once.

A run reads one batch. What it will read is decided and recorded first; then nothing about it changes:

    1  record      STATE/7.planned.json      which offsets of which log are batch 7
    2  write       OUTPUT/_kafkawire/unfinished/7-ATTEMPT/
    3  show        rename that to OUTPUT/batch=7
    4  commit      the batch's last offsets, to the group (with --group)
    5  finish      rename STATE/7.planned.json to 7.done.json

Whatever is killed between any two instructions, the next run finds one of these states:

    newest plan   OUTPUT/batch=N   the next run
    none or done  there            plans the next batch
    planned       not there        reads the plan's offsets again, goes on at 2
    planned       there            goes on at 4

1, 3 and 5 are one step each (see ``spark/hadoop_files``); 2 is invisible until 3, and 4 says the same however
often it is said. So a message of batch 7 is in the output once if 3 was reached and not at all before that,
and the offsets of two batches do not overlap, since a plan begins where the one before it ends.

Where a plan begins: where the newest plan ends, whatever was done to the group meanwhile; else, for a
topic that was never read, at what the group has committed; else at ``--starting``. What a topic gets
later, as more partitions, is read from its beginning, and so is a topic that was made anew.

One run at a time may write to an output: ``sole_run`` keeps others out, and where it cannot, the run
that is overtaken ends with an error before it shows anything. Readers see whole batches only.
"""
