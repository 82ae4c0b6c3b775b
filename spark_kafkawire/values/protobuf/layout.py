"""The arrays of a program that ``kernels`` run, and the meaning of their integers.

program   ``WIDTH`` integers for each field, by scopes and numbers
scopes    for each message: its first field in the program, and how many it has
domains   ``DOMAIN`` integers for each domain, see there
table     lists of integers of varying lengths that these refer to
out       the streams, int64; that of a repeated field has the index of the first item in its domain
flags     1 where a field is present, in streams of their own
"""

from __future__ import annotations

from typing import Final

#: Messages that may be open at the same time, as in the official runtimes.
DEPTH_MAX: Final = 101
#: Slots that a message may take, so that few bytes cannot ask for much memory.
STEPS_MIN: Final = 1 << 16
STEPS_PER_BYTE: Final = 256

#: Integers of a field.
WIDTH: Final = 13
NUMBER, OP, WIRE, ITEMS, FLAG, STREAM, ARG, ARG2, IMPLICIT, CLEARED, CLEARED_COUNT, PATH, ANY = range(WIDTH)
# ITEMS: domain of a repeated field, -1 for others. FLAG, STREAM: -1 for none. IMPLICIT: 1 if the default is
# not shown. ANY: the flag of a oneof of which a member is set, -1 outside of one. CLEARED: place in the
# table of what all members of it have: triples of a flag, -1, -1, or of a domain, the stream with its first
# item, and the domain of the message around it, -1 for the slot itself.

#: Operations.
INT64: Final = 0
INT32: Final = 1
BOOLEAN: Final = 2
SINT32: Final = 3
SINT64: Final = 4
FIXED: Final = 5
CLOSED_ENUM: Final = 6  # ARG, ARG2: place and count of sorted numbers in the table
SECONDS: Final = 7
SPAN: Final = 8  # ARG: 1 if it has to be UTF-8
MESSAGE: Final = 9  # ARG: scope
PRESENT: Final = 10  # only the flag counts
FAIL: Final = 11  # ARG: fault

#: Integers of a domain: its flags, the streams of repeated fields right in it, its size, and required fields.
DOMAIN: Final = 7
D_FLAG, D_FLAGS, D_START, D_STARTS, D_SIZE, D_REQUIRED, D_REQUIREDS = range(DOMAIN)
# D_FLAG: place in the table of flags. D_START: of pairs of a stream and a domain. D_REQUIRED: of triples of
# the flag of the message around a field (-1 for the slot itself), the field's flag, and its path.

#: Integers of an open message: those of the message around it.
FRAME: Final = 7
#: The scope without fields.
NO_SCOPE: Final = 0
#: Seconds of a timestamp that microseconds of 64 bits can have.
SECONDS_MAX: Final = (2**63 - 1) // 1_000_000 - 2**31
