"""ArviZ, imported without the warning that it gives once a day."""

from motorcost.posterior.arviz_groups import arviz

az = arviz()
