"""The three ways to feed a measured profile back to XLA, each as one workflow.

    auto     AutoPGLE: JAX measures, recompiles, and keeps the result in its compilation cache
    manual   JAX's profiler measures a run; the next runs are compiled with the profile
    nsys     the same, measured by Nsight Systems, or from an export that exists already

Each is a list of phases that can be printed (`script`) or executed, and its result states what was
proved: docs/guide/pgle.md.
"""

from counterpoint.workflow.feedback.auto import AutoOptions as AutoOptions
from counterpoint.workflow.feedback.auto import AutoResult as AutoResult
from counterpoint.workflow.feedback.auto import auto as auto
from counterpoint.workflow.feedback.auto import auto_script as auto_script
from counterpoint.workflow.feedback.feedback import ComparedRuns as ComparedRuns
from counterpoint.workflow.feedback.feedback import Feedback as Feedback
from counterpoint.workflow.feedback.log_proof import LogProof as LogProof
from counterpoint.workflow.feedback.log_proof import flags_of as flags_of
from counterpoint.workflow.feedback.log_proof import proof_in as proof_in
from counterpoint.workflow.feedback.log_proof import proof_of as proof_of
from counterpoint.workflow.feedback.manual import COMMAND_BUFFERS_OFF as COMMAND_BUFFERS_OFF
from counterpoint.workflow.feedback.manual import manual as manual
from counterpoint.workflow.feedback.manual import manual_script as manual_script
from counterpoint.workflow.feedback.nsys import NsysSource as NsysSource
from counterpoint.workflow.feedback.nsys import nsys as nsys
from counterpoint.workflow.feedback.nsys import nsys_script as nsys_script
from counterpoint.workflow.feedback.run_comparison import RunComparison as RunComparison
from counterpoint.workflow.feedback.run_comparison import abba_order as abba_order
from counterpoint.workflow.feedback.task import NO_CACHE as NO_CACHE
from counterpoint.workflow.feedback.task import FeedbackTask as FeedbackTask
from counterpoint.workflow.feedback.task import LoopOptions as LoopOptions
