; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #0

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1

; Function Attrs: convergent nocallback nounwind
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) #2

; Function Attrs: nounwind
define ptx_kernel void @all_reduce_start_fusion(ptr noalias align 256 dereferenceable(4194304) %arg0, ptr noalias align 256 dereferenceable(4194304) %arg1, i32 %arg2, i32 %arg3, ptr align 1 %arg4, ptr align 1 %arg5) local_unnamed_addr #3 {
  %1 = addrspacecast ptr %arg0 to ptr addrspace(1)
  %2 = addrspacecast ptr %arg4 to ptr addrspace(1)
  %3 = addrspacecast ptr %arg5 to ptr addrspace(1)
  %4 = addrspacecast ptr %arg1 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %5 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %6 = zext i32 %5 to i64
  %7 = shl i64 %6, 16
  %8 = tail call range(i32 0, 512) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %9 = shl i32 %8, 3
  %10 = zext i32 %9 to i64
  %11 = getelementptr [2 x i8], ptr addrspace(1) %1, i64 %7
  %12 = getelementptr [2 x i8], ptr addrspace(1) %11, i64 %10
  %13 = getelementptr i8, ptr addrspace(1) %12, i64 8192
  %14 = getelementptr i8, ptr addrspace(1) %12, i64 16384
  %15 = getelementptr i8, ptr addrspace(1) %12, i64 24576
  %16 = getelementptr i8, ptr addrspace(1) %12, i64 32768
  %17 = getelementptr i8, ptr addrspace(1) %12, i64 40960
  %18 = getelementptr i8, ptr addrspace(1) %12, i64 49152
  %19 = getelementptr i8, ptr addrspace(1) %12, i64 57344
  %20 = getelementptr i8, ptr addrspace(1) %12, i64 65536
  %21 = getelementptr i8, ptr addrspace(1) %12, i64 73728
  %22 = getelementptr i8, ptr addrspace(1) %12, i64 81920
  %23 = getelementptr i8, ptr addrspace(1) %12, i64 90112
  %24 = getelementptr i8, ptr addrspace(1) %12, i64 98304
  %25 = getelementptr i8, ptr addrspace(1) %12, i64 106496
  %26 = getelementptr i8, ptr addrspace(1) %12, i64 114688
  %27 = getelementptr i8, ptr addrspace(1) %12, i64 122880
  %28 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %12) #0
  %29 = extractvalue { i32, i32, i32, i32 } %28, 0
  %30 = extractvalue { i32, i32, i32, i32 } %28, 1
  %31 = extractvalue { i32, i32, i32, i32 } %28, 2
  %32 = extractvalue { i32, i32, i32, i32 } %28, 3
  %33 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %13) #0
  %34 = extractvalue { i32, i32, i32, i32 } %33, 0
  %35 = extractvalue { i32, i32, i32, i32 } %33, 1
  %36 = extractvalue { i32, i32, i32, i32 } %33, 2
  %37 = extractvalue { i32, i32, i32, i32 } %33, 3
  %38 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %14) #0
  %39 = extractvalue { i32, i32, i32, i32 } %38, 0
  %40 = extractvalue { i32, i32, i32, i32 } %38, 1
  %41 = extractvalue { i32, i32, i32, i32 } %38, 2
  %42 = extractvalue { i32, i32, i32, i32 } %38, 3
  %43 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %15) #0
  %44 = extractvalue { i32, i32, i32, i32 } %43, 0
  %45 = extractvalue { i32, i32, i32, i32 } %43, 1
  %46 = extractvalue { i32, i32, i32, i32 } %43, 2
  %47 = extractvalue { i32, i32, i32, i32 } %43, 3
  %48 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %16) #0
  %49 = extractvalue { i32, i32, i32, i32 } %48, 0
  %50 = extractvalue { i32, i32, i32, i32 } %48, 1
  %51 = extractvalue { i32, i32, i32, i32 } %48, 2
  %52 = extractvalue { i32, i32, i32, i32 } %48, 3
  %53 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %17) #0
  %54 = extractvalue { i32, i32, i32, i32 } %53, 0
  %55 = extractvalue { i32, i32, i32, i32 } %53, 1
  %56 = extractvalue { i32, i32, i32, i32 } %53, 2
  %57 = extractvalue { i32, i32, i32, i32 } %53, 3
  %58 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %18) #0
  %59 = extractvalue { i32, i32, i32, i32 } %58, 0
  %60 = extractvalue { i32, i32, i32, i32 } %58, 1
  %61 = extractvalue { i32, i32, i32, i32 } %58, 2
  %62 = extractvalue { i32, i32, i32, i32 } %58, 3
  %63 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %19) #0
  %64 = extractvalue { i32, i32, i32, i32 } %63, 0
  %65 = extractvalue { i32, i32, i32, i32 } %63, 1
  %66 = extractvalue { i32, i32, i32, i32 } %63, 2
  %67 = extractvalue { i32, i32, i32, i32 } %63, 3
  %68 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %20) #0
  %69 = extractvalue { i32, i32, i32, i32 } %68, 0
  %70 = extractvalue { i32, i32, i32, i32 } %68, 1
  %71 = extractvalue { i32, i32, i32, i32 } %68, 2
  %72 = extractvalue { i32, i32, i32, i32 } %68, 3
  %73 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %21) #0
  %74 = extractvalue { i32, i32, i32, i32 } %73, 0
  %75 = extractvalue { i32, i32, i32, i32 } %73, 1
  %76 = extractvalue { i32, i32, i32, i32 } %73, 2
  %77 = extractvalue { i32, i32, i32, i32 } %73, 3
  %78 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %22) #0
  %79 = extractvalue { i32, i32, i32, i32 } %78, 0
  %80 = extractvalue { i32, i32, i32, i32 } %78, 1
  %81 = extractvalue { i32, i32, i32, i32 } %78, 2
  %82 = extractvalue { i32, i32, i32, i32 } %78, 3
  %83 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %23) #0
  %84 = extractvalue { i32, i32, i32, i32 } %83, 0
  %85 = extractvalue { i32, i32, i32, i32 } %83, 1
  %86 = extractvalue { i32, i32, i32, i32 } %83, 2
  %87 = extractvalue { i32, i32, i32, i32 } %83, 3
  %88 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %24) #0
  %89 = extractvalue { i32, i32, i32, i32 } %88, 0
  %90 = extractvalue { i32, i32, i32, i32 } %88, 1
  %91 = extractvalue { i32, i32, i32, i32 } %88, 2
  %92 = extractvalue { i32, i32, i32, i32 } %88, 3
  %93 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %25) #0
  %94 = extractvalue { i32, i32, i32, i32 } %93, 0
  %95 = extractvalue { i32, i32, i32, i32 } %93, 1
  %96 = extractvalue { i32, i32, i32, i32 } %93, 2
  %97 = extractvalue { i32, i32, i32, i32 } %93, 3
  %98 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %26) #0
  %99 = extractvalue { i32, i32, i32, i32 } %98, 0
  %100 = extractvalue { i32, i32, i32, i32 } %98, 1
  %101 = extractvalue { i32, i32, i32, i32 } %98, 2
  %102 = extractvalue { i32, i32, i32, i32 } %98, 3
  %103 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %27) #0
  %104 = extractvalue { i32, i32, i32, i32 } %103, 0
  %105 = extractvalue { i32, i32, i32, i32 } %103, 1
  %106 = extractvalue { i32, i32, i32, i32 } %103, 2
  %107 = extractvalue { i32, i32, i32, i32 } %103, 3
  %108 = shl i32 %arg3, 20
  %109 = and i32 %108, 2097152
  %110 = zext i32 %109 to i64
  %111 = sext i32 %arg2 to i64
  %112 = getelementptr [8 x i8], ptr addrspace(1) %3, i64 %111
  %113 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %112) #0
  %114 = inttoptr i64 %113 to ptr addrspace(1)
  %115 = getelementptr [2 x i8], ptr addrspace(1) %114, i64 %7
  %116 = getelementptr [2 x i8], ptr addrspace(1) %115, i64 %110
  %117 = getelementptr [2 x i8], ptr addrspace(1) %116, i64 %10
  %118 = getelementptr i8, ptr addrspace(1) %117, i64 8192
  %119 = getelementptr i8, ptr addrspace(1) %117, i64 16384
  %120 = getelementptr i8, ptr addrspace(1) %117, i64 24576
  %121 = getelementptr i8, ptr addrspace(1) %117, i64 32768
  %122 = getelementptr i8, ptr addrspace(1) %117, i64 40960
  %123 = getelementptr i8, ptr addrspace(1) %117, i64 49152
  %124 = getelementptr i8, ptr addrspace(1) %117, i64 57344
  %125 = getelementptr i8, ptr addrspace(1) %117, i64 65536
  %126 = getelementptr i8, ptr addrspace(1) %117, i64 73728
  %127 = getelementptr i8, ptr addrspace(1) %117, i64 81920
  %128 = getelementptr i8, ptr addrspace(1) %117, i64 90112
  %129 = getelementptr i8, ptr addrspace(1) %117, i64 98304
  %130 = getelementptr i8, ptr addrspace(1) %117, i64 106496
  %131 = getelementptr i8, ptr addrspace(1) %117, i64 114688
  %132 = getelementptr i8, ptr addrspace(1) %117, i64 122880
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %29, i32 %30, i32 %31, i32 %32, ptr addrspace(1) %117) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %34, i32 %35, i32 %36, i32 %37, ptr addrspace(1) %118) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %39, i32 %40, i32 %41, i32 %42, ptr addrspace(1) %119) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %44, i32 %45, i32 %46, i32 %47, ptr addrspace(1) %120) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %49, i32 %50, i32 %51, i32 %52, ptr addrspace(1) %121) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %54, i32 %55, i32 %56, i32 %57, ptr addrspace(1) %122) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %59, i32 %60, i32 %61, i32 %62, ptr addrspace(1) %123) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %64, i32 %65, i32 %66, i32 %67, ptr addrspace(1) %124) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %69, i32 %70, i32 %71, i32 %72, ptr addrspace(1) %125) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %74, i32 %75, i32 %76, i32 %77, ptr addrspace(1) %126) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %79, i32 %80, i32 %81, i32 %82, ptr addrspace(1) %127) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %84, i32 %85, i32 %86, i32 %87, ptr addrspace(1) %128) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %89, i32 %90, i32 %91, i32 %92, ptr addrspace(1) %129) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %94, i32 %95, i32 %96, i32 %97, ptr addrspace(1) %130) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %99, i32 %100, i32 %101, i32 %102, ptr addrspace(1) %131) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %104, i32 %105, i32 %106, i32 %107, ptr addrspace(1) %132) #0
  tail call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %133 = icmp samesign ult i32 %8, 8
  br i1 %133, label %134, label %.loopexit2

134:                                              ; preds = %0
  %135 = zext nneg i32 %8 to i64
  %136 = getelementptr [8 x i8], ptr addrspace(1) %2, i64 %135
  %137 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %136) #0
  %138 = inttoptr i64 %137 to ptr addrspace(1)
  %139 = shl i32 %5, 3
  %140 = add i32 %arg2, %139
  %141 = sext i32 %140 to i64
  %142 = getelementptr [4 x i8], ptr addrspace(1) %138, i64 %141
  store atomic i32 %arg3, ptr addrspace(1) %142 release, align 4
  %143 = getelementptr [8 x i8], ptr addrspace(1) %2, i64 %111
  %144 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %143) #0
  %145 = inttoptr i64 %144 to ptr addrspace(1)
  %146 = sext i32 %139 to i64
  %147 = getelementptr [4 x i8], ptr addrspace(1) %145, i64 %146
  %148 = getelementptr [4 x i8], ptr addrspace(1) %147, i64 %135
  br label %149

149:                                              ; preds = %149, %134
  %150 = load atomic i32, ptr addrspace(1) %148 acquire, align 4
  %.not = icmp ult i32 %150, %arg3
  br i1 %.not, label %149, label %.loopexit2

.loopexit2:                                       ; preds = %149, %0
  %151 = icmp ult i32 %8, 8
  tail call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %152 = shl i32 %arg2, 13
  %153 = and i32 %152, 57344
  %154 = zext nneg i32 %153 to i64
  %155 = or disjoint i64 %7, %154
  %156 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %3) #0
  %157 = inttoptr i64 %156 to ptr addrspace(1)
  %158 = sub nsw i64 2097152, %155
  %159 = icmp sgt i64 %158, %10
  %160 = add nuw nsw i64 %155, %110
  %161 = getelementptr [2 x i8], ptr addrspace(1) %157, i64 %160
  %162 = getelementptr [2 x i8], ptr addrspace(1) %161, i64 %10
  %163 = getelementptr i8, ptr addrspace(1) %162, i64 8192
  %164 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %162, i1 %159) #0
  %165 = extractvalue { i32, i32, i32, i32 } %164, 0
  %166 = bitcast i32 %165 to <2 x bfloat>
  %167 = extractvalue { i32, i32, i32, i32 } %164, 1
  %168 = bitcast i32 %167 to <2 x bfloat>
  %169 = extractvalue { i32, i32, i32, i32 } %164, 2
  %170 = bitcast i32 %169 to <2 x bfloat>
  %171 = extractvalue { i32, i32, i32, i32 } %164, 3
  %172 = bitcast i32 %171 to <2 x bfloat>
  %173 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %163, i1 %159) #0
  %174 = extractvalue { i32, i32, i32, i32 } %173, 0
  %175 = bitcast i32 %174 to <2 x bfloat>
  %176 = extractvalue { i32, i32, i32, i32 } %173, 1
  %177 = bitcast i32 %176 to <2 x bfloat>
  %178 = extractvalue { i32, i32, i32, i32 } %173, 2
  %179 = bitcast i32 %178 to <2 x bfloat>
  %180 = extractvalue { i32, i32, i32, i32 } %173, 3
  %181 = bitcast i32 %180 to <2 x bfloat>
  %182 = getelementptr i8, ptr addrspace(1) %3, i64 8
  %183 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %182) #0
  %184 = inttoptr i64 %183 to ptr addrspace(1)
  %185 = getelementptr [2 x i8], ptr addrspace(1) %184, i64 %160
  %186 = getelementptr [2 x i8], ptr addrspace(1) %185, i64 %10
  %187 = getelementptr i8, ptr addrspace(1) %186, i64 8192
  %188 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %186, i1 %159) #0
  %189 = extractvalue { i32, i32, i32, i32 } %188, 0
  %190 = bitcast i32 %189 to <2 x bfloat>
  %191 = extractvalue { i32, i32, i32, i32 } %188, 1
  %192 = bitcast i32 %191 to <2 x bfloat>
  %193 = extractvalue { i32, i32, i32, i32 } %188, 2
  %194 = bitcast i32 %193 to <2 x bfloat>
  %195 = extractvalue { i32, i32, i32, i32 } %188, 3
  %196 = bitcast i32 %195 to <2 x bfloat>
  %197 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %187, i1 %159) #0
  %198 = extractvalue { i32, i32, i32, i32 } %197, 0
  %199 = bitcast i32 %198 to <2 x bfloat>
  %200 = extractvalue { i32, i32, i32, i32 } %197, 1
  %201 = bitcast i32 %200 to <2 x bfloat>
  %202 = extractvalue { i32, i32, i32, i32 } %197, 2
  %203 = bitcast i32 %202 to <2 x bfloat>
  %204 = extractvalue { i32, i32, i32, i32 } %197, 3
  %205 = bitcast i32 %204 to <2 x bfloat>
  %206 = getelementptr i8, ptr addrspace(1) %3, i64 16
  %207 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %206) #0
  %208 = inttoptr i64 %207 to ptr addrspace(1)
  %209 = getelementptr [2 x i8], ptr addrspace(1) %208, i64 %160
  %210 = getelementptr [2 x i8], ptr addrspace(1) %209, i64 %10
  %211 = getelementptr i8, ptr addrspace(1) %210, i64 8192
  %212 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %210, i1 %159) #0
  %213 = extractvalue { i32, i32, i32, i32 } %212, 0
  %214 = bitcast i32 %213 to <2 x bfloat>
  %215 = extractvalue { i32, i32, i32, i32 } %212, 1
  %216 = bitcast i32 %215 to <2 x bfloat>
  %217 = extractvalue { i32, i32, i32, i32 } %212, 2
  %218 = bitcast i32 %217 to <2 x bfloat>
  %219 = extractvalue { i32, i32, i32, i32 } %212, 3
  %220 = bitcast i32 %219 to <2 x bfloat>
  %221 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %211, i1 %159) #0
  %222 = extractvalue { i32, i32, i32, i32 } %221, 0
  %223 = bitcast i32 %222 to <2 x bfloat>
  %224 = extractvalue { i32, i32, i32, i32 } %221, 1
  %225 = bitcast i32 %224 to <2 x bfloat>
  %226 = extractvalue { i32, i32, i32, i32 } %221, 2
  %227 = bitcast i32 %226 to <2 x bfloat>
  %228 = extractvalue { i32, i32, i32, i32 } %221, 3
  %229 = bitcast i32 %228 to <2 x bfloat>
  %230 = getelementptr i8, ptr addrspace(1) %3, i64 24
  %231 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %230) #0
  %232 = inttoptr i64 %231 to ptr addrspace(1)
  %233 = getelementptr [2 x i8], ptr addrspace(1) %232, i64 %160
  %234 = getelementptr [2 x i8], ptr addrspace(1) %233, i64 %10
  %235 = getelementptr i8, ptr addrspace(1) %234, i64 8192
  %236 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %234, i1 %159) #0
  %237 = extractvalue { i32, i32, i32, i32 } %236, 0
  %238 = bitcast i32 %237 to <2 x bfloat>
  %239 = extractvalue { i32, i32, i32, i32 } %236, 1
  %240 = bitcast i32 %239 to <2 x bfloat>
  %241 = extractvalue { i32, i32, i32, i32 } %236, 2
  %242 = bitcast i32 %241 to <2 x bfloat>
  %243 = extractvalue { i32, i32, i32, i32 } %236, 3
  %244 = bitcast i32 %243 to <2 x bfloat>
  %245 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %235, i1 %159) #0
  %246 = extractvalue { i32, i32, i32, i32 } %245, 0
  %247 = bitcast i32 %246 to <2 x bfloat>
  %248 = extractvalue { i32, i32, i32, i32 } %245, 1
  %249 = bitcast i32 %248 to <2 x bfloat>
  %250 = extractvalue { i32, i32, i32, i32 } %245, 2
  %251 = bitcast i32 %250 to <2 x bfloat>
  %252 = extractvalue { i32, i32, i32, i32 } %245, 3
  %253 = bitcast i32 %252 to <2 x bfloat>
  %254 = getelementptr i8, ptr addrspace(1) %3, i64 32
  %255 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %254) #0
  %256 = inttoptr i64 %255 to ptr addrspace(1)
  %257 = getelementptr [2 x i8], ptr addrspace(1) %256, i64 %160
  %258 = getelementptr [2 x i8], ptr addrspace(1) %257, i64 %10
  %259 = getelementptr i8, ptr addrspace(1) %258, i64 8192
  %260 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %258, i1 %159) #0
  %261 = extractvalue { i32, i32, i32, i32 } %260, 0
  %262 = bitcast i32 %261 to <2 x bfloat>
  %263 = extractvalue { i32, i32, i32, i32 } %260, 1
  %264 = bitcast i32 %263 to <2 x bfloat>
  %265 = extractvalue { i32, i32, i32, i32 } %260, 2
  %266 = bitcast i32 %265 to <2 x bfloat>
  %267 = extractvalue { i32, i32, i32, i32 } %260, 3
  %268 = bitcast i32 %267 to <2 x bfloat>
  %269 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %259, i1 %159) #0
  %270 = extractvalue { i32, i32, i32, i32 } %269, 0
  %271 = bitcast i32 %270 to <2 x bfloat>
  %272 = extractvalue { i32, i32, i32, i32 } %269, 1
  %273 = bitcast i32 %272 to <2 x bfloat>
  %274 = extractvalue { i32, i32, i32, i32 } %269, 2
  %275 = bitcast i32 %274 to <2 x bfloat>
  %276 = extractvalue { i32, i32, i32, i32 } %269, 3
  %277 = bitcast i32 %276 to <2 x bfloat>
  %278 = getelementptr i8, ptr addrspace(1) %3, i64 40
  %279 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %278) #0
  %280 = inttoptr i64 %279 to ptr addrspace(1)
  %281 = getelementptr [2 x i8], ptr addrspace(1) %280, i64 %160
  %282 = getelementptr [2 x i8], ptr addrspace(1) %281, i64 %10
  %283 = getelementptr i8, ptr addrspace(1) %282, i64 8192
  %284 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %282, i1 %159) #0
  %285 = extractvalue { i32, i32, i32, i32 } %284, 0
  %286 = bitcast i32 %285 to <2 x bfloat>
  %287 = extractvalue { i32, i32, i32, i32 } %284, 1
  %288 = bitcast i32 %287 to <2 x bfloat>
  %289 = extractvalue { i32, i32, i32, i32 } %284, 2
  %290 = bitcast i32 %289 to <2 x bfloat>
  %291 = extractvalue { i32, i32, i32, i32 } %284, 3
  %292 = bitcast i32 %291 to <2 x bfloat>
  %293 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %283, i1 %159) #0
  %294 = extractvalue { i32, i32, i32, i32 } %293, 0
  %295 = bitcast i32 %294 to <2 x bfloat>
  %296 = extractvalue { i32, i32, i32, i32 } %293, 1
  %297 = bitcast i32 %296 to <2 x bfloat>
  %298 = extractvalue { i32, i32, i32, i32 } %293, 2
  %299 = bitcast i32 %298 to <2 x bfloat>
  %300 = extractvalue { i32, i32, i32, i32 } %293, 3
  %301 = bitcast i32 %300 to <2 x bfloat>
  %302 = getelementptr i8, ptr addrspace(1) %3, i64 48
  %303 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %302) #0
  %304 = inttoptr i64 %303 to ptr addrspace(1)
  %305 = getelementptr [2 x i8], ptr addrspace(1) %304, i64 %160
  %306 = getelementptr [2 x i8], ptr addrspace(1) %305, i64 %10
  %307 = getelementptr i8, ptr addrspace(1) %306, i64 8192
  %308 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %306, i1 %159) #0
  %309 = extractvalue { i32, i32, i32, i32 } %308, 0
  %310 = bitcast i32 %309 to <2 x bfloat>
  %311 = extractvalue { i32, i32, i32, i32 } %308, 1
  %312 = bitcast i32 %311 to <2 x bfloat>
  %313 = extractvalue { i32, i32, i32, i32 } %308, 2
  %314 = bitcast i32 %313 to <2 x bfloat>
  %315 = extractvalue { i32, i32, i32, i32 } %308, 3
  %316 = bitcast i32 %315 to <2 x bfloat>
  %317 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %307, i1 %159) #0
  %318 = extractvalue { i32, i32, i32, i32 } %317, 0
  %319 = bitcast i32 %318 to <2 x bfloat>
  %320 = extractvalue { i32, i32, i32, i32 } %317, 1
  %321 = bitcast i32 %320 to <2 x bfloat>
  %322 = extractvalue { i32, i32, i32, i32 } %317, 2
  %323 = bitcast i32 %322 to <2 x bfloat>
  %324 = extractvalue { i32, i32, i32, i32 } %317, 3
  %325 = bitcast i32 %324 to <2 x bfloat>
  %326 = getelementptr i8, ptr addrspace(1) %3, i64 56
  %327 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %326) #0
  %328 = inttoptr i64 %327 to ptr addrspace(1)
  %329 = getelementptr [2 x i8], ptr addrspace(1) %328, i64 %160
  %330 = getelementptr [2 x i8], ptr addrspace(1) %329, i64 %10
  %331 = getelementptr i8, ptr addrspace(1) %330, i64 8192
  %332 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %330, i1 %159) #0
  %333 = extractvalue { i32, i32, i32, i32 } %332, 0
  %334 = bitcast i32 %333 to <2 x bfloat>
  %335 = extractvalue { i32, i32, i32, i32 } %332, 1
  %336 = bitcast i32 %335 to <2 x bfloat>
  %337 = extractvalue { i32, i32, i32, i32 } %332, 2
  %338 = bitcast i32 %337 to <2 x bfloat>
  %339 = extractvalue { i32, i32, i32, i32 } %332, 3
  %340 = bitcast i32 %339 to <2 x bfloat>
  %341 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l,b"(ptr addrspace(1) %331, i1 %159) #0
  %342 = extractvalue { i32, i32, i32, i32 } %341, 0
  %343 = bitcast i32 %342 to <2 x bfloat>
  %344 = extractvalue { i32, i32, i32, i32 } %341, 1
  %345 = bitcast i32 %344 to <2 x bfloat>
  %346 = extractvalue { i32, i32, i32, i32 } %341, 2
  %347 = bitcast i32 %346 to <2 x bfloat>
  %348 = extractvalue { i32, i32, i32, i32 } %341, 3
  %349 = bitcast i32 %348 to <2 x bfloat>
  %350 = fadd <2 x bfloat> %166, %190
  %351 = fadd <2 x bfloat> %350, %214
  %352 = fadd <2 x bfloat> %351, %238
  %353 = fadd <2 x bfloat> %352, %262
  %354 = fadd <2 x bfloat> %353, %286
  %355 = fadd <2 x bfloat> %354, %310
  %356 = fadd <2 x bfloat> %355, %334
  %357 = fadd <2 x bfloat> %168, %192
  %358 = fadd <2 x bfloat> %357, %216
  %359 = fadd <2 x bfloat> %358, %240
  %360 = fadd <2 x bfloat> %359, %264
  %361 = fadd <2 x bfloat> %360, %288
  %362 = fadd <2 x bfloat> %361, %312
  %363 = fadd <2 x bfloat> %362, %336
  %364 = fadd <2 x bfloat> %170, %194
  %365 = fadd <2 x bfloat> %364, %218
  %366 = fadd <2 x bfloat> %365, %242
  %367 = fadd <2 x bfloat> %366, %266
  %368 = fadd <2 x bfloat> %367, %290
  %369 = fadd <2 x bfloat> %368, %314
  %370 = fadd <2 x bfloat> %369, %338
  %371 = fadd <2 x bfloat> %172, %196
  %372 = fadd <2 x bfloat> %371, %220
  %373 = fadd <2 x bfloat> %372, %244
  %374 = fadd <2 x bfloat> %373, %268
  %375 = fadd <2 x bfloat> %374, %292
  %376 = fadd <2 x bfloat> %375, %316
  %377 = fadd <2 x bfloat> %376, %340
  %378 = fadd <2 x bfloat> %175, %199
  %379 = fadd <2 x bfloat> %378, %223
  %380 = fadd <2 x bfloat> %379, %247
  %381 = fadd <2 x bfloat> %380, %271
  %382 = fadd <2 x bfloat> %381, %295
  %383 = fadd <2 x bfloat> %382, %319
  %384 = fadd <2 x bfloat> %383, %343
  %385 = fadd <2 x bfloat> %177, %201
  %386 = fadd <2 x bfloat> %385, %225
  %387 = fadd <2 x bfloat> %386, %249
  %388 = fadd <2 x bfloat> %387, %273
  %389 = fadd <2 x bfloat> %388, %297
  %390 = fadd <2 x bfloat> %389, %321
  %391 = fadd <2 x bfloat> %390, %345
  %392 = fadd <2 x bfloat> %179, %203
  %393 = fadd <2 x bfloat> %392, %227
  %394 = fadd <2 x bfloat> %393, %251
  %395 = fadd <2 x bfloat> %394, %275
  %396 = fadd <2 x bfloat> %395, %299
  %397 = fadd <2 x bfloat> %396, %323
  %398 = fadd <2 x bfloat> %397, %347
  %399 = fadd <2 x bfloat> %181, %205
  %400 = fadd <2 x bfloat> %399, %229
  %401 = fadd <2 x bfloat> %400, %253
  %402 = fadd <2 x bfloat> %401, %277
  %403 = fadd <2 x bfloat> %402, %301
  %404 = fadd <2 x bfloat> %403, %325
  %405 = fadd <2 x bfloat> %404, %349
  %406 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %112) #0
  %407 = inttoptr i64 %406 to ptr addrspace(1)
  %408 = getelementptr [2 x i8], ptr addrspace(1) %407, i64 %160
  %409 = getelementptr [2 x i8], ptr addrspace(1) %408, i64 %10
  %410 = getelementptr i8, ptr addrspace(1) %409, i64 8192
  %411 = bitcast <2 x bfloat> %356 to i32
  %412 = bitcast <2 x bfloat> %363 to i32
  %413 = bitcast <2 x bfloat> %370 to i32
  %414 = bitcast <2 x bfloat> %377 to i32
  tail call void asm sideeffect "@$5 st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l,b"(i32 %411, i32 %412, i32 %413, i32 %414, ptr addrspace(1) %409, i1 %159) #0
  %415 = bitcast <2 x bfloat> %384 to i32
  %416 = bitcast <2 x bfloat> %391 to i32
  %417 = bitcast <2 x bfloat> %398 to i32
  %418 = bitcast <2 x bfloat> %405 to i32
  tail call void asm sideeffect "@$5 st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l,b"(i32 %415, i32 %416, i32 %417, i32 %418, ptr addrspace(1) %410, i1 %159) #0
  %419 = add i32 %arg3, 1
  tail call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %151, label %420, label %.loopexit

420:                                              ; preds = %.loopexit2
  %421 = zext nneg i32 %8 to i64
  %422 = getelementptr [8 x i8], ptr addrspace(1) %2, i64 %421
  %423 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %422) #0
  %424 = inttoptr i64 %423 to ptr addrspace(1)
  %425 = shl i32 %5, 3
  %426 = add i32 %arg2, %425
  %427 = sext i32 %426 to i64
  %428 = getelementptr [4 x i8], ptr addrspace(1) %424, i64 %427
  store atomic i32 %419, ptr addrspace(1) %428 release, align 4
  %429 = getelementptr [8 x i8], ptr addrspace(1) %2, i64 %111
  %430 = tail call i64 asm sideeffect "mov.u64 $0, 0x0; ld.global.b64 { $0 }, [ $1 + 0 ];", "=l,l"(ptr addrspace(1) %429) #0
  %431 = inttoptr i64 %430 to ptr addrspace(1)
  %432 = sext i32 %425 to i64
  %433 = getelementptr [4 x i8], ptr addrspace(1) %431, i64 %432
  %434 = getelementptr [4 x i8], ptr addrspace(1) %433, i64 %421
  br label %435

435:                                              ; preds = %435, %420
  %436 = load atomic i32, ptr addrspace(1) %434 acquire, align 4
  %.not1 = icmp ult i32 %436, %419
  br i1 %.not1, label %435, label %.loopexit

.loopexit:                                        ; preds = %435, %.loopexit2
  tail call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %437 = tail call { i64, i64 } asm sideeffect "mov.u64 $0, 0x0; mov.u64 $1, 0x0; ld.global.v2.b64 { $0, $1 }, [ $2 + 0 ];", "=l,=l,l"(ptr addrspace(1) %3) #0
  %438 = extractvalue { i64, i64 } %437, 0
  %439 = extractvalue { i64, i64 } %437, 1
  %440 = tail call { i64, i64 } asm sideeffect "mov.u64 $0, 0x0; mov.u64 $1, 0x0; ld.global.v2.b64 { $0, $1 }, [ $2 + 0 ];", "=l,=l,l"(ptr addrspace(1) %206) #0
  %441 = extractvalue { i64, i64 } %440, 0
  %442 = extractvalue { i64, i64 } %440, 1
  %443 = tail call { i64, i64 } asm sideeffect "mov.u64 $0, 0x0; mov.u64 $1, 0x0; ld.global.v2.b64 { $0, $1 }, [ $2 + 0 ];", "=l,=l,l"(ptr addrspace(1) %254) #0
  %444 = extractvalue { i64, i64 } %443, 0
  %445 = extractvalue { i64, i64 } %443, 1
  %446 = tail call { i64, i64 } asm sideeffect "mov.u64 $0, 0x0; mov.u64 $1, 0x0; ld.global.v2.b64 { $0, $1 }, [ $2 + 0 ];", "=l,=l,l"(ptr addrspace(1) %302) #0
  %447 = extractvalue { i64, i64 } %446, 0
  %448 = extractvalue { i64, i64 } %446, 1
  %449 = inttoptr i64 %438 to ptr addrspace(1)
  %450 = inttoptr i64 %439 to ptr addrspace(1)
  %451 = inttoptr i64 %441 to ptr addrspace(1)
  %452 = inttoptr i64 %442 to ptr addrspace(1)
  %453 = inttoptr i64 %444 to ptr addrspace(1)
  %454 = inttoptr i64 %445 to ptr addrspace(1)
  %455 = inttoptr i64 %447 to ptr addrspace(1)
  %456 = inttoptr i64 %448 to ptr addrspace(1)
  %457 = getelementptr [2 x i8], ptr addrspace(1) %449, i64 %110
  %458 = getelementptr [2 x i8], ptr addrspace(1) %450, i64 %110
  %459 = getelementptr [2 x i8], ptr addrspace(1) %451, i64 %110
  %460 = getelementptr [2 x i8], ptr addrspace(1) %452, i64 %110
  %461 = getelementptr [2 x i8], ptr addrspace(1) %453, i64 %110
  %462 = getelementptr [2 x i8], ptr addrspace(1) %454, i64 %110
  %463 = getelementptr [2 x i8], ptr addrspace(1) %455, i64 %110
  %464 = getelementptr [2 x i8], ptr addrspace(1) %456, i64 %110
  %465 = getelementptr [2 x i8], ptr addrspace(1) %457, i64 %7
  %466 = getelementptr [2 x i8], ptr addrspace(1) %465, i64 %10
  %467 = getelementptr i8, ptr addrspace(1) %466, i64 8192
  %468 = getelementptr [2 x i8], ptr addrspace(1) %458, i64 %7
  %469 = getelementptr [2 x i8], ptr addrspace(1) %468, i64 %10
  %470 = getelementptr i8, ptr addrspace(1) %469, i64 16384
  %471 = getelementptr i8, ptr addrspace(1) %469, i64 24576
  %472 = getelementptr [2 x i8], ptr addrspace(1) %459, i64 %7
  %473 = getelementptr [2 x i8], ptr addrspace(1) %472, i64 %10
  %474 = getelementptr i8, ptr addrspace(1) %473, i64 32768
  %475 = getelementptr i8, ptr addrspace(1) %473, i64 40960
  %476 = getelementptr [2 x i8], ptr addrspace(1) %460, i64 %7
  %477 = getelementptr [2 x i8], ptr addrspace(1) %476, i64 %10
  %478 = getelementptr i8, ptr addrspace(1) %477, i64 49152
  %479 = getelementptr i8, ptr addrspace(1) %477, i64 57344
  %480 = getelementptr [2 x i8], ptr addrspace(1) %461, i64 %7
  %481 = getelementptr [2 x i8], ptr addrspace(1) %480, i64 %10
  %482 = getelementptr i8, ptr addrspace(1) %481, i64 65536
  %483 = getelementptr i8, ptr addrspace(1) %481, i64 73728
  %484 = getelementptr [2 x i8], ptr addrspace(1) %462, i64 %7
  %485 = getelementptr [2 x i8], ptr addrspace(1) %484, i64 %10
  %486 = getelementptr i8, ptr addrspace(1) %485, i64 81920
  %487 = getelementptr i8, ptr addrspace(1) %485, i64 90112
  %488 = getelementptr [2 x i8], ptr addrspace(1) %463, i64 %7
  %489 = getelementptr [2 x i8], ptr addrspace(1) %488, i64 %10
  %490 = getelementptr i8, ptr addrspace(1) %489, i64 98304
  %491 = getelementptr i8, ptr addrspace(1) %489, i64 106496
  %492 = getelementptr [2 x i8], ptr addrspace(1) %464, i64 %7
  %493 = getelementptr [2 x i8], ptr addrspace(1) %492, i64 %10
  %494 = getelementptr i8, ptr addrspace(1) %493, i64 114688
  %495 = getelementptr i8, ptr addrspace(1) %493, i64 122880
  %496 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %466) #0
  %497 = extractvalue { i32, i32, i32, i32 } %496, 0
  %498 = extractvalue { i32, i32, i32, i32 } %496, 1
  %499 = extractvalue { i32, i32, i32, i32 } %496, 2
  %500 = extractvalue { i32, i32, i32, i32 } %496, 3
  %501 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %467) #0
  %502 = extractvalue { i32, i32, i32, i32 } %501, 0
  %503 = extractvalue { i32, i32, i32, i32 } %501, 1
  %504 = extractvalue { i32, i32, i32, i32 } %501, 2
  %505 = extractvalue { i32, i32, i32, i32 } %501, 3
  %506 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %470) #0
  %507 = extractvalue { i32, i32, i32, i32 } %506, 0
  %508 = extractvalue { i32, i32, i32, i32 } %506, 1
  %509 = extractvalue { i32, i32, i32, i32 } %506, 2
  %510 = extractvalue { i32, i32, i32, i32 } %506, 3
  %511 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %471) #0
  %512 = extractvalue { i32, i32, i32, i32 } %511, 0
  %513 = extractvalue { i32, i32, i32, i32 } %511, 1
  %514 = extractvalue { i32, i32, i32, i32 } %511, 2
  %515 = extractvalue { i32, i32, i32, i32 } %511, 3
  %516 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %474) #0
  %517 = extractvalue { i32, i32, i32, i32 } %516, 0
  %518 = extractvalue { i32, i32, i32, i32 } %516, 1
  %519 = extractvalue { i32, i32, i32, i32 } %516, 2
  %520 = extractvalue { i32, i32, i32, i32 } %516, 3
  %521 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %475) #0
  %522 = extractvalue { i32, i32, i32, i32 } %521, 0
  %523 = extractvalue { i32, i32, i32, i32 } %521, 1
  %524 = extractvalue { i32, i32, i32, i32 } %521, 2
  %525 = extractvalue { i32, i32, i32, i32 } %521, 3
  %526 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %478) #0
  %527 = extractvalue { i32, i32, i32, i32 } %526, 0
  %528 = extractvalue { i32, i32, i32, i32 } %526, 1
  %529 = extractvalue { i32, i32, i32, i32 } %526, 2
  %530 = extractvalue { i32, i32, i32, i32 } %526, 3
  %531 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %479) #0
  %532 = extractvalue { i32, i32, i32, i32 } %531, 0
  %533 = extractvalue { i32, i32, i32, i32 } %531, 1
  %534 = extractvalue { i32, i32, i32, i32 } %531, 2
  %535 = extractvalue { i32, i32, i32, i32 } %531, 3
  %536 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %482) #0
  %537 = extractvalue { i32, i32, i32, i32 } %536, 0
  %538 = extractvalue { i32, i32, i32, i32 } %536, 1
  %539 = extractvalue { i32, i32, i32, i32 } %536, 2
  %540 = extractvalue { i32, i32, i32, i32 } %536, 3
  %541 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %483) #0
  %542 = extractvalue { i32, i32, i32, i32 } %541, 0
  %543 = extractvalue { i32, i32, i32, i32 } %541, 1
  %544 = extractvalue { i32, i32, i32, i32 } %541, 2
  %545 = extractvalue { i32, i32, i32, i32 } %541, 3
  %546 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %486) #0
  %547 = extractvalue { i32, i32, i32, i32 } %546, 0
  %548 = extractvalue { i32, i32, i32, i32 } %546, 1
  %549 = extractvalue { i32, i32, i32, i32 } %546, 2
  %550 = extractvalue { i32, i32, i32, i32 } %546, 3
  %551 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %487) #0
  %552 = extractvalue { i32, i32, i32, i32 } %551, 0
  %553 = extractvalue { i32, i32, i32, i32 } %551, 1
  %554 = extractvalue { i32, i32, i32, i32 } %551, 2
  %555 = extractvalue { i32, i32, i32, i32 } %551, 3
  %556 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %490) #0
  %557 = extractvalue { i32, i32, i32, i32 } %556, 0
  %558 = extractvalue { i32, i32, i32, i32 } %556, 1
  %559 = extractvalue { i32, i32, i32, i32 } %556, 2
  %560 = extractvalue { i32, i32, i32, i32 } %556, 3
  %561 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %491) #0
  %562 = extractvalue { i32, i32, i32, i32 } %561, 0
  %563 = extractvalue { i32, i32, i32, i32 } %561, 1
  %564 = extractvalue { i32, i32, i32, i32 } %561, 2
  %565 = extractvalue { i32, i32, i32, i32 } %561, 3
  %566 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %494) #0
  %567 = extractvalue { i32, i32, i32, i32 } %566, 0
  %568 = extractvalue { i32, i32, i32, i32 } %566, 1
  %569 = extractvalue { i32, i32, i32, i32 } %566, 2
  %570 = extractvalue { i32, i32, i32, i32 } %566, 3
  %571 = tail call { i32, i32, i32, i32 } asm sideeffect "mov.u32 $0, 0x0; mov.u32 $1, 0x0; mov.u32 $2, 0x0; mov.u32 $3, 0x0; ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];", "=r,=r,=r,=r,l"(ptr addrspace(1) %495) #0
  %572 = extractvalue { i32, i32, i32, i32 } %571, 0
  %573 = extractvalue { i32, i32, i32, i32 } %571, 1
  %574 = extractvalue { i32, i32, i32, i32 } %571, 2
  %575 = extractvalue { i32, i32, i32, i32 } %571, 3
  %576 = getelementptr [2 x i8], ptr addrspace(1) %4, i64 %7
  %577 = getelementptr [2 x i8], ptr addrspace(1) %576, i64 %10
  %578 = getelementptr i8, ptr addrspace(1) %577, i64 8192
  %579 = getelementptr i8, ptr addrspace(1) %577, i64 16384
  %580 = getelementptr i8, ptr addrspace(1) %577, i64 24576
  %581 = getelementptr i8, ptr addrspace(1) %577, i64 32768
  %582 = getelementptr i8, ptr addrspace(1) %577, i64 40960
  %583 = getelementptr i8, ptr addrspace(1) %577, i64 49152
  %584 = getelementptr i8, ptr addrspace(1) %577, i64 57344
  %585 = getelementptr i8, ptr addrspace(1) %577, i64 65536
  %586 = getelementptr i8, ptr addrspace(1) %577, i64 73728
  %587 = getelementptr i8, ptr addrspace(1) %577, i64 81920
  %588 = getelementptr i8, ptr addrspace(1) %577, i64 90112
  %589 = getelementptr i8, ptr addrspace(1) %577, i64 98304
  %590 = getelementptr i8, ptr addrspace(1) %577, i64 106496
  %591 = getelementptr i8, ptr addrspace(1) %577, i64 114688
  %592 = getelementptr i8, ptr addrspace(1) %577, i64 122880
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %497, i32 %498, i32 %499, i32 %500, ptr addrspace(1) %577) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %502, i32 %503, i32 %504, i32 %505, ptr addrspace(1) %578) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %507, i32 %508, i32 %509, i32 %510, ptr addrspace(1) %579) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %512, i32 %513, i32 %514, i32 %515, ptr addrspace(1) %580) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %517, i32 %518, i32 %519, i32 %520, ptr addrspace(1) %581) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %522, i32 %523, i32 %524, i32 %525, ptr addrspace(1) %582) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %527, i32 %528, i32 %529, i32 %530, ptr addrspace(1) %583) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %532, i32 %533, i32 %534, i32 %535, ptr addrspace(1) %584) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %537, i32 %538, i32 %539, i32 %540, ptr addrspace(1) %585) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %542, i32 %543, i32 %544, i32 %545, ptr addrspace(1) %586) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %547, i32 %548, i32 %549, i32 %550, ptr addrspace(1) %587) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %552, i32 %553, i32 %554, i32 %555, ptr addrspace(1) %588) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %557, i32 %558, i32 %559, i32 %560, ptr addrspace(1) %589) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %562, i32 %563, i32 %564, i32 %565, ptr addrspace(1) %590) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %567, i32 %568, i32 %569, i32 %570, ptr addrspace(1) %591) #0
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %572, i32 %573, i32 %574, i32 %575, ptr addrspace(1) %592) #0
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #2 = { convergent nocallback nounwind }
attributes #3 = { nounwind "nvvm.reqntid"="512,1,1" }

!llvm.module.flags = !{!0, !1}
!nvvm.annotations = !{}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
