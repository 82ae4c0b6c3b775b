"""Log directories of brokers, read without a broker: ``log.dirs`` of Kafka 0.7 to 4.x.

    log.dirs of a broker
      meta.properties  replication-offset-checkpoint  log-start-offset-checkpoint  ...
      topic-partition/
        00000000000000000000.log  .index  .timeindex  .txnindex  .snapshot       (0.8 to 4.x)
        00000000000000000000.kafka                                               (0.7)
        leader-epoch-checkpoint  partition.metadata

``names``, ``side_files`` and ``replicas`` are pure: bytes become values. ``files`` alone opens files.
"""
