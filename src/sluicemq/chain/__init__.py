"""What happens to a published message, in order.

    publishers                                                                 consumers
        |                                                                          ^
        v                                                                          |
      reader ------> channel ------> queue ------> message_store      queue --> channel --> writer
             <------         <------       <------                         <--            <--
             grants          grants        grants                          grants     flushed

    link                     initial  more_after   config name (RabbitMQ's)
    reader  -> channel           200          50   credit_flow_default_credit (3.8: 400, 200)
    channel -> queue             200          50   credit_flow_default_credit
    queue   -> message_store    4000         800   msg_store_credit_disc_bound
    queue   -> channel          1024         256   deliveries, in units of 4 KiB; not a gate of the
                                                   queue: a slow consumer never holds up publishers

Every arrow is a message into an inbox. Only the reader ever stops. Every other actor with a shut
gate goes on working and withholds the grants it owes.
"""
