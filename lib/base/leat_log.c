/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_log.h"

RTE_LOG_REGISTER(leat_logtype_base, leat.base, INFO)
RTE_LOG_REGISTER(leat_logtype_tune, leat.tune, INFO)
RTE_LOG_REGISTER(leat_logtype_rendezvous, leat.rendezvous, INFO)
RTE_LOG_REGISTER(leat_logtype_exchange, leat.exchange, INFO)
RTE_LOG_REGISTER(leat_logtype_fabric, leat.fabric, INFO)
RTE_LOG_REGISTER(leat_logtype_tags, leat.tags, INFO)
RTE_LOG_REGISTER(leat_logtype_reactor, leat.reactor, INFO)
RTE_LOG_REGISTER(leat_logtype_task, leat.task, INFO)
RTE_LOG_REGISTER(leat_logtype_msg, leat.msg, INFO)
RTE_LOG_REGISTER(leat_logtype_driver, leat.driver, INFO)
RTE_LOG_REGISTER(leat_logtype_rpc, leat.rpc, INFO)
RTE_LOG_REGISTER(leat_logtype_stream, leat.stream, INFO)
RTE_LOG_REGISTER(leat_logtype_app, leat.app, INFO)
