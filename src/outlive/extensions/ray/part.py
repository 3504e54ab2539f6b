"""Ray's share of a server: the placement, if it is asked for."""

from outlive.core.location import LOCAL
from outlive.core.needs import Amounts
from outlive.extensions.ray.options import RayOptions
from outlive.extensions.server_part import ServerPart
from outlive.kernel.folder_identity import claim_folder
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode


class RayPart(ServerPart):
    """Leases places on a Ray cluster."""

    def placement(self, _this_machine: FleetNode) -> Placement | None:
        """Return what leases places with `--placement ray`.

        Raises:
            ConfigInvalid: Ray is not installed.
        """
        if self.given.settings.placement != "ray":
            return None
        # Start-up time: 3 ms, and few servers have a cluster.
        from outlive.extensions.ray.leased import LeasedPlacement  # noqa: PLC0415
        from outlive.extensions.ray.ray_placement import RayDriver, check_ray  # noqa: PLC0415

        check_ray()
        layout = self.given.layout
        driver = RayDriver(
            address=self.given.settings.of(RayOptions).ray_address,
            owner=claim_folder(layout),
            log_file=f"{layout.root}/ray.log",
        )
        # This machine takes nothing as itself: with a raylet it is one of Ray's nodes.
        return LeasedPlacement(FleetNode(name=LOCAL, capacity=Amounts()), driver)
