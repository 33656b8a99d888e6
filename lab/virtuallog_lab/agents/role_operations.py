"""Operations on roles: their quotas and weights."""

from __future__ import annotations

import attrs

from virtuallog_database.registrar.core.edit import Edit
from virtuallog_lab.agents.capabilities import QUOTA_V2, release, require
from virtuallog_lab.agents.records import OLD_QUOTAS, QUOTAS, WEIGHTS, QuotaConfig, Weight
from virtuallog_lab.agents.validation import check_quota, check_weight


@attrs.frozen
class UpdateQuota:
    """Set quotas of roles: all of them, or none if one is refused. The default quota deletes a record."""

    configs: tuple[QuotaConfig, ...]

    def perform(self, edit: Edit) -> None:
        """Store them, and delete the old-style quotas of the same roles."""
        for config in self.configs:
            check_quota(config)
        for config in self.configs:
            if config.is_default:
                edit.delete(QUOTAS, config.role)
            else:
                edit.put(QUOTAS, config.role, config)
            edit.delete(OLD_QUOTAS, config.role)
        if edit.count(QUOTAS):
            require(edit, QUOTA_V2)
        else:
            release(edit, QUOTA_V2)


@attrs.frozen
class UpdateWeights:
    """Set weights of roles. No operation deletes one."""

    weights: tuple[Weight, ...]

    def perform(self, edit: Edit) -> None:
        """Store them. Equal ones change nothing."""
        for weight in self.weights:
            check_weight(weight)
        for weight in self.weights:
            edit.put(WEIGHTS, weight.role, weight)
