"""Tables of measured rates from users, and their readers."""

from counterpoint.cost.tables.gemm_csv import GemmTable as GemmTable
from counterpoint.cost.tables.gemm_csv import read_gemm_csv as read_gemm_csv
from counterpoint.cost.tables.kernel_toml import KernelTable as KernelTable
from counterpoint.cost.tables.kernel_toml import read_kernel_toml as read_kernel_toml
from counterpoint.cost.tables.nccl_tests import CollectiveTable as CollectiveTable
from counterpoint.cost.tables.nccl_tests import read_nccl_log as read_nccl_log

Table = GemmTable | CollectiveTable | KernelTable
