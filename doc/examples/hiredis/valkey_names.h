/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef VALKEY_NAMES_H
#define VALKEY_NAMES_H

/*
 * hiredis' names for libvalkey's functions and constants, as far as this example uses them. A
 * program that is written for libvalkey does not need this header.
 */

#define REDIS_BLOCK VALKEY_BLOCK
#define REDIS_CONNECTED VALKEY_CONNECTED
#define REDIS_CONN_USERFD VALKEY_CONN_USERFD
#define REDIS_ERR VALKEY_ERR
#define REDIS_ERR_EOF VALKEY_ERR_EOF
#define REDIS_ERR_IO VALKEY_ERR_IO
#define REDIS_ERR_TIMEOUT VALKEY_ERR_TIMEOUT
#define REDIS_FREEING VALKEY_FREEING
#define REDIS_IN_CALLBACK VALKEY_IN_CALLBACK
#define REDIS_INVALID_FD VALKEY_INVALID_FD
#define REDIS_OK VALKEY_OK
#define REDIS_REPLY_ARRAY VALKEY_REPLY_ARRAY
#define REDIS_REPLY_ERROR VALKEY_REPLY_ERROR
#define REDIS_REPLY_INTEGER VALKEY_REPLY_INTEGER
#define REDIS_REPLY_STATUS VALKEY_REPLY_STATUS
#define REDIS_REPLY_STRING VALKEY_REPLY_STRING

#define redisAppendCommand valkeyAppendCommand
#define redisAsyncCommand valkeyAsyncCommand
#define redisAsyncConnectWithOptions valkeyAsyncConnectWithOptions
#define redisAsyncContext valkeyAsyncContext
#define redisAsyncDisconnect valkeyAsyncDisconnect
#define redisAsyncFree valkeyAsyncFree
#define redisAsyncHandleRead valkeyAsyncHandleRead
#define redisAsyncHandleTimeout valkeyAsyncHandleTimeout
#define redisAsyncHandleWrite valkeyAsyncHandleWrite
#define redisAsyncRead valkeyAsyncRead
#define redisAsyncSetConnectCallback valkeyAsyncSetConnectCallback
#define redisAsyncSetDisconnectCallback valkeyAsyncSetDisconnectCallback
#define redisAsyncWrite valkeyAsyncWrite
#define redisCommand valkeyCommand
#define redisConnectWithOptions valkeyConnectWithOptions
#define redisContext valkeyContext
#define redisContextFuncs valkeyContextFuncs
#define redisFree valkeyFree
#define redisGetReply valkeyGetReply
#define redisOptions valkeyOptions
#define redisReader valkeyReader
#define redisReaderCreate valkeyReaderCreate
#define redisReaderFeed valkeyReaderFeed
#define redisReaderFree valkeyReaderFree
#define redisReaderGetReply valkeyReaderGetReply
#define redisReply valkeyReply

#endif /* VALKEY_NAMES_H */
