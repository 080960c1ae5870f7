"""The running count, one output row per record: Holdfast's, then each peer's, on the same topic of the same broker."""

from __future__ import annotations

from bench.measures.peers.environment import PeerMissing
from bench.measures.peers.measured import run_peer
from bench.measures.peers.peer import PEERS, Peer
from bench.measures.throughput import Throughput
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale
from holdfast.services.node.machine.artifacts import ArtifactsMissing
from holdfast.services.node.machine.java import JavaMissing

OURS = Throughput(jobs.EACH, keys=1_000, keyed=True)


def against_peers(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Figures of all peers. A peer that cannot be installed or does not run is reported and left out.

    ahead_of: Holdfast's records a second as a multiple of the peer's, or the peer's CPU as a multiple of Holdfast's.
    """
    ours = OURS(cluster, name, scale)
    figures = dict(ours)
    for peer in PEERS:
        cluster.say(f"  {peer.name} {peer.version} ...")
        try:
            found = _peer(cluster, peer, f"bench-{name}", scale)
        except (PeerMissing, ArtifactsMissing, JavaMissing, MeasureFailed) as error:
            cluster.say(f"  {peer.name} is left out: {error}")
            continue
        figures |= {f"{peer.name}_{figure}": value for figure, value in found.items()}
        figures |= {
            f"speed_over_{peer.name}": round(ours["records_per_s"] / found["records_per_s"], 2),
            f"cpu_below_{peer.name}": round(found["cpu_s_per_million"] / max(ours["cpu_s_per_million"], 0.01), 2),
        }
    return figures


def _peer(cluster: BenchCluster, peer: Peer, topic: str, scale: Scale) -> Figures:
    return run_peer(cluster, peer.name, peer.brought(), topic, min(scale.records, peer.at_most))
